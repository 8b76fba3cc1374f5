"""Pack the contents of a batch into plain tensors, and unpack them.

Texts become their UTF-8 bytes and lengths; mappings (the boxes of a picture) become the rows of each entry
and their number. So rows of any kind can be stored, merged, saved and moved like any other tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....exceptions import MetricInputError
from ...batch import Outputs, as_tensor
from ...features import TEXT, InputType

Packed = dict[str, Tensor]


class MetricInputs(NamedTuple):
    """The inputs of a metric: model output, target and extras, for one batch or for all."""

    preds: Any
    target: Any
    extras: Mapping[str, Any]


def read_inputs(batch: Outputs, inputs: InputType, extras: Sequence[str]) -> MetricInputs:
    """Return the inputs of a batch; for a text output passed as texts, the texts and their references."""
    values = {name: _plain(batch.extras[name]) for name in extras if name in batch.extras}
    if batch.feature.type == TEXT and inputs is InputType.PREDICTIONS:
        return MetricInputs(batch.texts, batch.references, values)
    return MetricInputs(batch[inputs], batch.answer, values)


def _plain(value: Any) -> Any:
    """Return an extra unchanged if it holds texts or mappings, else as a tensor."""
    return value if _is_records(value) else as_tensor(value)


def _is_records(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], (str, tuple, dict))


def pack(inputs: MetricInputs) -> Packed:
    """Return the inputs as tensors, which are copies.

    Raises:
        MetricInputError: an extra does not have an entry per row.
    """
    packed = {**_pack_value("preds", inputs.preds), **_pack_value("target", inputs.target)}
    for name, value in inputs.extras.items():
        if len(value) != len(inputs.preds):
            raise MetricInputError(f"{name}= has an entry per row, {len(inputs.preds)}; got {len(value)}")
        packed |= _pack_value(f"extra {name}", value)
    return packed


def unpack(packed: Packed) -> MetricInputs:
    """Return the inputs that `pack` packed."""
    roles: dict[str, dict[str, Tensor]] = {}
    for name, tensor in packed.items():
        role, _, part = name.partition("/")
        roles.setdefault(role, {})[part] = tensor
    values = {role: _unpack_value(parts) for role, parts in roles.items()}
    extras = {
        role.removeprefix("extra "): value for role, value in values.items() if role.startswith("extra ")
    }
    return MetricInputs(values["preds"], values["target"], extras)


def _pack_value(role: str, value: Any) -> Packed:
    if not _is_records(value):
        return {f"{role}/": as_tensor(value).clone()}
    if isinstance(value[0], dict):
        return {f"{role}/{part}": tensor for part, tensor in _pack_mappings(value).items()}
    is_nested = isinstance(value[0], tuple)
    counts = {"counts": torch.tensor([len(texts) for texts in value])} if is_nested else {}
    texts = _pack_texts([text for texts in value for text in texts] if is_nested else list(value))
    return {f"{role}/{part}": tensor for part, tensor in {**texts, **counts}.items()}


def _pack_texts(texts: list[str]) -> Packed:
    encoded = [text.encode("utf8", "surrogatepass") for text in texts]
    letters = torch.from_numpy(np.frombuffer(b"".join(encoded), dtype=np.uint8).copy())
    return {"letters": letters, "lengths": torch.tensor([len(text) for text in encoded])}


def _pack_mappings(rows: Sequence[Mapping[str, Any]]) -> Packed:
    packed: Packed = {}
    for key in rows[0]:
        if any(row.keys() != rows[0].keys() for row in rows):
            raise MetricInputError(
                f"every mapping of a batch has the same keys; the first has {list(rows[0])}"
            )
        tensors = [as_tensor(row[key]) for row in rows]
        packed[f"rows of {key}"] = torch.cat(tensors)
        packed[f"sizes of {key}"] = torch.tensor([len(tensor) for tensor in tensors])
    return packed


def _unpack_value(parts: Packed) -> Any:
    if "" in parts:
        return parts[""]
    if "letters" not in parts:
        keys = [part.removeprefix("rows of ") for part in parts if part.startswith("rows of ")]
        sizes = {key: parts[f"sizes of {key}"].tolist() for key in keys}
        columns = {key: torch.split(parts[f"rows of {key}"], sizes[key]) for key in keys}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    letters = parts["letters"].cpu().numpy().tobytes()
    ends = [0, *accumulate(parts["lengths"].tolist())]
    texts = [letters[start:end].decode("utf8", "surrogatepass") for start, end in pairwise(ends)]
    if "counts" not in parts:
        return texts
    places = [0, *accumulate(parts["counts"].tolist())]
    return [tuple(texts[start:end]) for start, end in pairwise(places)]
