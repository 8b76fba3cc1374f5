"""A program of another language, as far as the sweep can see: it reads a file and prints lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def main(params_file: str, mode: str = "well") -> None:
    """Lose less from epoch to epoch; one mode for each thing that can go wrong."""
    with open(params_file, encoding="utf8") as file:
        params = json.load(file)
    print("reading", os.environ["HPOMETRICS_TRIAL"], os.environ["HPOMETRICS_SEED"], flush=True)
    if mode == "fails":
        sys.exit("out of luck")
    if mode == "silent":
        time.sleep(3600)
    if mode == "complains":
        print("no such file: data.csv")
        sys.exit(1)
    if mode == "leaves":
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        with open("left", "a", encoding="utf8") as file:
            print(left.pid, file=file)
    for epoch in range(4):
        told = {"epoch": epoch, "log_loss": params["lr"] + 1 / (epoch + 1), "megabytes": 10 * params["lr"]}
        if mode == "skips":
            told["epoch"] = 2 * epoch
        if mode == "null" and epoch == 3:
            told["log_loss"] = None
        print(json.dumps(told), flush=True)
        print("{not an epoch", flush=True)
        if mode == "hangs" and epoch == 1:
            time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
