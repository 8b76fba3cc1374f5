#!/usr/bin/env bash
# The workers of one sweep as a Slurm array, each with a GPU of its own. From the folder of the sweep file:
#
#     sbatch slurm.sh sweep.yaml runs/sweep
#
# Submitted again it goes on where it was. To have more workers: sbatch --array=8-15 slurm.sh sweep.yaml runs/sweep
# The first task runs the sweep and prints the optimal engine params; the others join it. A directory on NFS wants
# `backend: {optuna: {storage: journal}}` in the file.
#SBATCH --job-name=sweep
#SBATCH --array=0-7
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@60
#SBATCH --requeue
set -euo pipefail

sweep=$1 directory=$2
if ((SLURM_ARRAY_TASK_ID == 0)); then
  exec srun hpometrics run "$sweep"
fi
exec srun hpometrics worker "$directory" --wait 10m # until the first task has begun
