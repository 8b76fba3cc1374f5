"""What is kept over batches and shared by every metric that needs it: a file per statistic."""
