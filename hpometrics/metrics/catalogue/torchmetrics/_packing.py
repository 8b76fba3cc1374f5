"""Packing: what a batch holds as plain tensors, whatever it was given as, and back again.

Texts become their UTF-8 bytes and lengths; mappings (the boxes of a picture) the rows of each entry and how
many there are. So rows of any kind can be kept, merged, saved and moved like any other tensor.
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


class Given(NamedTuple):
    """What a metric is given: model output, target and extras, for one batch or for all."""

    preds: Any
    target: Any
    extras: Mapping[str, Any]


def given_by(batch: Outputs, inputs: InputType, extras: Sequence[str]) -> Given:
    """Read a batch: of a text output given as texts, the texts and their references."""
    wanted = {name: _plain(batch.extras[name]) for name in extras if name in batch.extras}
    if batch.feature.type == TEXT and inputs is InputType.PREDICTIONS:
        return Given(batch.texts, batch.references, wanted)
    return Given(batch[inputs], batch.answer, wanted)


def _plain(value: Any) -> Any:
    """An extra as it is if it holds texts or mappings, else as a tensor."""
    return value if _is_records(value) else as_tensor(value)


def _is_records(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], (str, tuple, dict))


def pack(given: Given) -> Packed:
    """Give the tensors of what was given; they are copies.

    Raises:
        MetricInputError: an extra does not have an entry per row.
    """
    packed = {**_packed("preds", given.preds), **_packed("target", given.target)}
    for name, value in given.extras.items():
        if len(value) != len(given.preds):
            raise MetricInputError(f"{name}= has an entry per row, {len(given.preds)}; got {len(value)}")
        packed |= _packed(f"extra {name}", value)
    return packed


def unpack(packed: Packed) -> Given:
    """Give back what was packed."""
    roles: dict[str, dict[str, Tensor]] = {}
    for name, tensor in packed.items():
        role, _, part = name.partition("/")
        roles.setdefault(role, {})[part] = tensor
    values = {role: _unpacked(parts) for role, parts in roles.items()}
    extras = {
        role.removeprefix("extra "): value for role, value in values.items() if role.startswith("extra ")
    }
    return Given(values["preds"], values["target"], extras)


def _packed(role: str, value: Any) -> Packed:
    if not _is_records(value):
        return {f"{role}/": as_tensor(value).clone()}
    if isinstance(value[0], dict):
        return {f"{role}/{part}": tensor for part, tensor in _of_mappings(value).items()}
    several = isinstance(value[0], tuple)
    counts = {"counts": torch.tensor([len(texts) for texts in value])} if several else {}
    texts = _of_texts([text for texts in value for text in texts] if several else list(value))
    return {f"{role}/{part}": tensor for part, tensor in {**texts, **counts}.items()}


def _of_texts(texts: list[str]) -> Packed:
    encoded = [text.encode("utf8", "surrogatepass") for text in texts]
    letters = torch.from_numpy(np.frombuffer(b"".join(encoded), dtype=np.uint8).copy())
    return {"letters": letters, "lengths": torch.tensor([len(text) for text in encoded])}


def _of_mappings(rows: Sequence[Mapping[str, Any]]) -> Packed:
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


def _unpacked(parts: Packed) -> Any:
    if "" in parts:
        return parts[""]
    if "letters" not in parts:
        keys = [part.removeprefix("rows of ") for part in parts if part.startswith("rows of ")]
        cut = {key: torch.split(parts[f"rows of {key}"], parts[f"sizes of {key}"].tolist()) for key in keys}
        return [dict(zip(cut, row, strict=True)) for row in zip(*cut.values(), strict=True)]
    letters = parts["letters"].cpu().numpy().tobytes()
    ends = [0, *accumulate(parts["lengths"].tolist())]
    texts = [letters[start:end].decode("utf8", "surrogatepass") for start, end in pairwise(ends)]
    if "counts" not in parts:
        return texts
    places = [0, *accumulate(parts["counts"].tolist())]
    return [tuple(texts[start:end]) for start, end in pairwise(places)]
