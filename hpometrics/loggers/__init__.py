"""Logs: views of the record of a run, each derived from its epochs alone and rebuilt when the run goes on."""
