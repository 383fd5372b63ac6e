"""Copies finished runs to MLflow or Weights & Biases: the configuration, and the numbers of each epoch.

  python scripts/export_runs.py mlflow runs/photos                 # to MLFLOW_TRACKING_URI
  WANDB_MODE=offline python scripts/export_runs.py wandb runs/photos
"""

import argparse
import csv
import tomllib
from pathlib import Path


def flat(table, prefix=""):
    """`{"model": {"depth": 12}}` as `{"model.depth": 12}`: MLflow has no nested parameters."""
    keys = {}
    for key, value in table.items():
        keys |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return keys


def read(folder):
    """The configuration of a run, and its epochs as pairs of a number from 0 and the metrics that were measured."""
    config = tomllib.loads((folder / "config.toml").read_text())
    with (folder / "epochs.csv").open() as file:
        rows = list(csv.DictReader(file))
    return config, [(int(row.pop("epoch")), {name: float(value) for name, value in row.items() if value}) for row in rows]


def to_mlflow(folder):
    import mlflow

    config, epochs = read(folder)
    with mlflow.start_run(run_name=folder.name):
        mlflow.log_params(flat(config))
        for epoch, metrics in epochs:
            mlflow.log_metrics(metrics, step=epoch)


def to_wandb(folder):
    import wandb

    config, epochs = read(folder)
    with wandb.init(project="kvt", name=folder.name, config=config) as run:
        for epoch, metrics in epochs:
            run.log(metrics, step=epoch)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("to", choices=["mlflow", "wandb"])
parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
arguments = parser.parse_args()
for run in arguments.runs:
    {"mlflow": to_mlflow, "wandb": to_wandb}[arguments.to](run)
