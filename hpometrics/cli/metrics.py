"""The commands that list metrics, show one, measure a file and print the schema."""

from __future__ import annotations

from pathlib import Path

import click

from .._formatting import json_text, terminal_width
from .console import show
from .options import AS_JSON, FAMILY, FEATURE, FILE, METRIC_OR_GROUP, METRICS, Command, Group, output_format


@click.command(cls=Command, examples=("schema -o sweep.schema.json",))
@click.option("-o", "--output", type=FILE, help="Write to this file.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of sweep files, for editors."""
    from ..config.json_schema import json_schema

    text = json_text(json_schema()) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf8")


@click.command(
    cls=Command,
    examples=(
        "measure predictions.csv --output binary",
        "measure p.csv --output category --metrics accuracy,calibration",
    ),
)
@click.argument("file", type=FILE)
@click.option(
    "--output",
    metavar="TYPE",
    type=FEATURE,
    help="What the model predicts, such as category or binary(threshold=0.3).",
)
@click.option(
    "--metrics",
    "names",
    default="default",
    show_default=True,
    metavar="NAMES",
    type=METRICS,
    help="Metrics and groups, separated by commas.",
)
@click.option("--by", metavar="COLUMN", help="Print one line per task in this column.  [task, if present]")
@click.option("--weights", metavar="COLUMN", help="The column of row weights.  [sample_weight, if present]")
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    default=4.0,
    show_default=True,
    metavar="GIB",
    help="The memory limit for the columns read at once, in GiB.",
)
@click.option("-f", "--format", "form", type=click.Choice(["text", "json", "csv"]), help="[text]")
@AS_JSON
def measure(
    file: Path,
    output: str | None,
    names: str,
    by: str | None,
    weights: str | None,
    memory: float,
    form: str | None,
    as_json: bool,
) -> None:
    """Measure predictions in a file: CSV, JSON lines, Parquet or npz.

    A file may also be TSV. It has the columns target and prediction. Probabilities are in probability, or in
    probability_0 and so on, or in columns named by label; logits likewise. A set has target_LABEL. Texts have
    reference, or reference_0 and so on. sample_weight and task are optional.
    """
    from ..metrics.registry.names import split_names
    from ..scoring import measure_file, report

    measured = measure_file(file, output, split_names(names), weights=weights, by=by, memory=memory)
    show(report(measured, output_format(form, as_json)))


@click.group(cls=Group, examples=("metrics list --feature binary", "metrics show roc_auc"))
def metrics() -> None:
    """List and show the registered metrics."""


@metrics.command(
    "list",
    examples=("metrics list --family calibration", "metrics list --feature ranking --direction maximize"),
)
@click.option(
    "--feature",
    metavar="TYPE",
    type=FEATURE,
    help="Only for this output feature, such as binary or category.",
)
@click.option("--inputs", type=click.Choice(["predictions", "probabilities", "logits"]))
@click.option("--direction", "--objective", "direction", type=click.Choice(["minimize", "maximize", "none"]))
@click.option("--family", metavar="NAME", type=FAMILY, help="Only this family, such as calibration.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def list_metrics(
    feature: str | None, inputs: str | None, direction: str | None, family: str | None, as_json: bool
) -> None:
    """List metrics with direction, inputs and meaning."""
    from .metric_list import Filter, metrics_json, metrics_table
    from .metric_pages import diagnostics_table

    selection = Filter(feature, inputs, direction, family)
    show(metrics_json(selection) if as_json else metrics_table(selection, terminal_width()))
    if selection == Filter() and not as_json:
        show(f"\n{diagnostics_table(terminal_width())}")


@metrics.command("show", examples=("metrics show ndcg", "metrics show calibration --feature binary"))
@click.argument("name", type=METRIC_OR_GROUP)
@click.option("--feature", metavar="TYPE", type=FEATURE, help="Only for this output feature.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show_metric(name: str, feature: str | None, as_json: bool) -> None:
    """Show the definition, direction and parameters of a metric.

    The page also has the evidence for its direction, and its use. For a group, such as calibration or
    default, show its metrics for each output.
    """
    from .metric_pages import metric_json, metric_text

    text = metric_json(name, feature) if as_json else metric_text(name, feature, terminal_width())
    show(text)
