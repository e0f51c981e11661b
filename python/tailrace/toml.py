"""Reading TOML files that people write: checks them against a model and words the first error.

The sentence names the file, the key and what the key must be. For an unknown name it also suggests the nearest known
one: `experiment.toml: tiers.web.count must be a whole number above 0, got -1`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from tailrace.bounds import NAME_CHARACTERS
from tailrace.errors import InputError
from tailrace.foreign import NAME_LENGTH_MAX, listed, name
from tailrace.untrusted import read_inside, read_text

Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARACTERS)]
Count = Annotated[int, Field(gt=0, lt=2**63, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Location = tuple[int | str, ...]
Model = TypeVar("Model", bound="Table")
_COMPARED_MAX = 1_000


class Table(BaseModel):
    """A table of a file: it never changes, and has only its own keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def elsewhere(cls, key: str) -> str:
        """ "; it is one of X" for a key that tables of a related kind have; otherwise empty."""
        return ""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, table: Any) -> Any:
        """Checks names before values, because a misspelt key is the more likely mistake."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in table if isinstance(table, Mapping) else ():
            if key not in known:
                near = cls.elsewhere(str(key)) or nearest(str(key), known)
                raise PydanticCustomError("unknown_key", "{key}{near}", {"key": str(key), "near": near})
        return table


def read(path: str | PathLike[str], example: str, *, untrusted: bool = False) -> dict[str, Any]:
    """The file as plain values; `example` names a document with an example. With `untrusted`, the file comes from a
    folder that somebody else made, so it must be a regular file."""
    text = read_inside(Path(path)) if untrusted else read_text(path)
    try:
        table = tomllib.loads(text)
        _check_whole_numbers(table)
        return table
    except ValueError as error:  # also raised for a number of thousands of digits
        raise InputError(path, f"not TOML: {error}", f"see {example} for an example") from error
    except RecursionError as error:
        raise InputError(path, "lists or tables are nested hundreds deep", "write them side by side") from error


def _check_whole_numbers(value: Any) -> None:
    """TOML's whole numbers have 64 bits; Python's have no limit."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,):
        if isinstance(item, dict | list):
            _check_whole_numbers(item)
        elif isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise ValueError(f"a number of {item.bit_length()} bits; there are 64")


def check(
    model: type[Model],
    table: Mapping[str, Any],
    path: str | PathLike[str],
    need: Callable[[ErrorDetails], str | None] = lambda error: None,
    spot: Callable[[Location], Location] = lambda location: location,
) -> Model:
    """Convert the table to a `model`. `need` may describe a key better than its type does; `spot` may correct the place
    of an error."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        where, found = spot(first["loc"]), first.get("ctx", {})
        if first["type"] == "unknown_key":
            raise InputError(path, f"{key_path((*where, found['key']))} is not a known key{found['near']}") from error
        if first["type"].startswith("union_tag_"):
            quoted = str(found["discriminator"])
            key = quoted.strip("'") if quoted.startswith("'") else "kind"
            where, first["input"] = (*where, key), found.get("tag")
        raise InputError(path, f"{key_path(where) or 'the file'} {_demand(first, need(first))}") from error


def key_path(location: Location) -> str:
    key = ""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def shown(value: object) -> str:
    """A value as an error shows it: in TOML's notation, and of bounded length."""
    try:
        return name(repr(value))
    except ValueError:  # Python does not print numbers of thousands of digits
        return "a number of thousands of digits"


def nearest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean X?", or empty when no known name is near. A comparison takes time in proportion to the product
    of both lengths, so names that are too long to be shown whole are not compared, and only as many names as a person
    writes."""
    if len(name) > NAME_LENGTH_MAX:
        return ""
    short = (one for one in known if len(one) <= NAME_LENGTH_MAX)
    found = difflib.get_close_matches(name, islice(short, _COMPARED_MAX), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def wrong_name(key: str, name: str, known: Iterable[str], what: str) -> str:
    """The sentence for a name that is used and not declared."""
    names = sorted(known)
    article = "an" if what[0] in "aeiou" else "a"
    there = listed(names) or "there is none"
    return f"{key} must be the name of {article} {what} ({there}), got {shown(name)}{nearest(name, names)}"


def _demand(error: ErrorDetails, need: str | None) -> str:
    """The problem that pydantic found, as "must be …, got …"."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("missing", "union_tag_not_found"):
        return "is missing"
    needs = {
        "string_type": "text that is not empty",
        "string_too_short": "text that is not empty",
        "tuple_type": "a list of tables",
        "mapping_type": "a table",
        "dict_type": "a table",
        "model_type": "a table",
        "model_attributes_type": "a table",
        "bool_type": "true or false",
        "bool_parsing": "true or false",
        "literal_error": str(context.get("expected", "one of the known words")).replace("'", '"'),
        "union_tag_invalid": f"one of {context.get('expected_tags', 'the known words')}".replace("'", '"'),
        "less_than": f"below {_plain(context.get('lt'))}",
        "less_than_equal": f"at most {_plain(context.get('le'))}",
        "finite_number": "a finite number",
        "string_too_long": f"text of at most {context.get('max_length', 0):,} characters",
    }
    if kind == "too_long":
        return f"must have at most {context['max_length']:,} entries, got {context['actual_length'] or 'more':,}"
    if need is None and kind == "greater_than":
        need = "a number above 0" if isinstance(context.get("gt"), float) else "a whole number above 0"
    if need is None and kind.startswith("int_"):
        need = "a whole number"
    if need is None and kind in ("greater_than_equal", "float_type", "float_parsing"):
        least = f"{context.get('ge', 0):g} or more"
        quantity = kind == "greater_than_equal" and isinstance(error.get("input"), str)
        need = least if quantity else f"a number of {least}"
    if need is None and kind == "value_error":
        return str(context.get("error", error["msg"]))
    return f"must be {need or needs.get(kind, error['msg'])}, got {shown(error.get('input'))}{_nearest_word(error)}"


def _nearest_word(error: ErrorDetails) -> str:
    """The nearest of the words that a key accepts."""
    context = error.get("ctx", {})
    words = re.findall(r"'([^']+)'", str(context.get("expected") or context.get("expected_tags", "")))
    written = context.get("tag", error.get("input"))
    return nearest(written, words) if isinstance(written, str) else ""


def _plain(limit: Any) -> str:
    """10,000 for 10000.0."""
    return f"{int(limit):,}" if isinstance(limit, int | float) and limit == int(limit) else str(limit)
