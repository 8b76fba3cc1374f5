"""Write the first files of a sweep, convert sweep files of other tools, and audit their searches."""
