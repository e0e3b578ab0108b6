"""What travels comes back equal; what would not is refused, at enqueue, with a reason."""

from __future__ import annotations

import enum
import functools
import inspect
import math
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict, Union
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rota
from rota.errors import ConfigError, PayloadError
from rota.payload.codec import Codec, encode_plain
from rota.payload.travel import MAX_DEPTH
from rota.values.names import as_name, shown

if TYPE_CHECKING:
    from fractions import Fraction

NAN, INF = float("nan"), float("inf")


async def charge(tenant: str, order_id: int, cents: int = 100) -> None: ...
def loose(value, other: Any = None, *, more: object = 0) -> None: ...  # type: ignore[no-untyped-def]
def only(a: int, b: str = "b", /, c: float = 0.5, *, d: bool, e: int | None = None) -> None: ...
def gather(first: int, second: int = 2, *rest: int, flag: bool = False, **more: str) -> None: ...
def event(**fields: Any) -> None: ...
def nothing() -> None: ...


def plain(value: object) -> None:
    """Raises PayloadError unless an unannotated parameter takes it."""
    Codec(loose).encode((value,), {})


def label(value: object) -> str:
    """A test id that is the same in every process: no addresses, no order of a set."""
    text = shown(value)[:40]
    return type(value).__name__ if " at 0x" in text or isinstance(value, frozenset | set) else text


def takes(annotation: Any) -> Codec:
    """The codec of a function whose one parameter has this annotation."""

    def task(value) -> None: ...  # type: ignore[no-untyped-def]

    task.__annotations__["value"] = annotation
    return Codec(task)


def round_trip(codec: Codec, *args: object, **kwargs: object) -> dict[str, object]:
    """What the function would see, by parameter."""
    args_back, kwargs_back = codec.decode(codec.encode(args, kwargs))
    call = codec._signature.bind(*args_back, **kwargs_back)
    return dict(call.arguments)


def alike(left: object, right: object) -> bool:
    """Equal, of the same types all the way down, zeros of the same sign."""
    if type(left) is not type(right) or left != right:
        return False
    if isinstance(left, float) and isinstance(right, float):
        return math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, list) and isinstance(right, list):
        return all(map(alike, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(alike(left[k], right[k]) for k in left)
    return True


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


# --- unannotated values

PLAIN_VALUES: list[object] = [
    None, True, False, 0, -1, 2**53 + 1, -(2**63), 2**64 - 1, 123_456_789_012_345_678,
    0.0, -0.0, 0.1, 1.0, 1e16, 1e22, 1e300, 5e-324, -1.7976931348623157e308,
    "", "x", "\x00", "é", "🎉", "\u2028", '"\\', "2026-01-01T00:00:00Z", "null", "NaN",
    [], {}, [[]], [{}], {"": []}, {"a": {"b": [1, 1.0, True, None, "1"]}}, {"0": 0, "a.b": {}},
    nested(MAX_DEPTH - 1), ["[" * 1000, "{" * 1000, '\\"[' * 300],
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN_VALUES, ids=label)
def test_plain_values_come_back(value: object) -> None:
    assert alike(round_trip(Codec(loose), value)["value"], value)
    assert alike(round_trip(Codec(loose), 0, value, more=value)["more"], value)


@pytest.mark.parametrize("value", [10**30, -(10**30), 2**64], ids=str)
def test_huge_ints_come_back_exactly_or_not_at_all(value: int) -> None:
    try:
        payload = Codec(loose).encode((value,), {})
    except PayloadError:
        return
    assert Codec(loose).decode(payload) == ((), {"value": value})


@dataclass
class Point:
    x: int
    y: float = 0.0


class Color(enum.Enum):
    RED = "red"


class NeverEqual:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]


NOT_PLAIN: list[tuple[object, str]] = [
    (NAN, "NaN and infinity"), (INF, "NaN and infinity"), (-INF, "NaN and infinity"),
    ([{"a": NAN}], "NaN and infinity"), ("\ud800", "lone surrogate"), ({"\udfff": 1}, "surrogate"),
    ({1: "a"}, "back as another dict"), ({None: 1}, "keys"), ({True: 1}, "expected None, bool"),
    ({1, 2}, "comes back as"), (frozenset(), "comes back as"), ((1, 2), "comes back as"),
    ([(1,)], "comes back as"), (Decimal("1.5"), "comes back as a str"), (uuid.UUID(int=1), "comes"),
    (datetime(2026, 1, 1, tzinfo=UTC), "comes back as"), (date(2026, 1, 1), "comes back as"),
    (timedelta(1), "comes back as"), (b"", "back as a str"), (bytes(range(256)), "comes back"),
    (Point(1), "comes back as"), (Color.RED, "comes back as a str"), (object(), "cannot travel"),
    (NeverEqual(), "cannot travel"), (10**5000, "given a int"), (Point, "cannot travel"),
    (nested(MAX_DEPTH), "deeper than 200 levels"), (nested(1000), "deeper than 200 levels"),
    (cyclic(), "cyclic"), (1j, "cannot travel"), (iter([]), "cannot travel"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "reason"), NOT_PLAIN, ids=label)
def test_what_would_not_survive_is_refused(value: object, reason: str) -> None:
    codec = Codec(loose)
    for args, kwargs in [((value,), {}), ((1, value), {}), ((1,), {"more": value})]:
        with pytest.raises(PayloadError, match="task loose") as caught:
            codec.encode(args, kwargs)
        assert reason in str(caught.value)
        str(caught.value).encode()
    with pytest.raises(PayloadError):
        encode_plain([value], None)
    with pytest.raises(PayloadError):
        encode_plain(None, {"value": value})


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
VALUES = st.recursive(
    SCALARS | st.tuples(st.integers()) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


def is_plain(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        return all(isinstance(k, str) and is_plain(k) and is_plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, int)


@given(VALUES)
@example([1.0, -0.0, {"a": 1e16}])
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_comes_back_alike_or_is_refused(value: object) -> None:
    codec = Codec(loose)
    if is_plain(value):
        assert alike(round_trip(codec, value)["value"], value)
        assert alike(codec.decode(encode_plain([value], None))[1]["value"], value)
    else:
        with pytest.raises(PayloadError):
            codec.encode((value,), {})


def depth(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


BRACKETS_AND_QUOTES = st.text(st.sampled_from('[]{}"\\n'), max_size=12)


@given(
    st.recursive(
        BRACKETS_AND_QUOTES,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(BRACKETS_AND_QUOTES, inner, max_size=3)
        ),
    ),
    st.integers(MAX_DEPTH - 8, MAX_DEPTH),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_text_does_not_blur_the_depth(value: object, around: int) -> None:
    for _ in range(around):
        value = ["[" * 200, value]
    fits = depth(value) < MAX_DEPTH  # the payload is a level too
    try:
        plain(value)
    except PayloadError:
        assert not fits
    else:
        assert fits


# --- annotated values


class Level(enum.IntEnum):
    HIGH = 3


class Row(NamedTuple):
    id: int
    name: str


class Options(TypedDict, total=False):
    size: int
    tags: list[str]


class Item(msgspec.Struct):
    sku: str
    price: Decimal


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass(eq=False)
class NoEquality:
    x: int
    inner: Point


class Model(pydantic.BaseModel):
    at: datetime
    weight: float = pydantic.Field(default=1.0, alias="w")
    tags: frozenset[str] = frozenset()


MODEL = Model(at=datetime(2026, 1, 1, tzinfo=UTC), w=2, tags=frozenset("abc"))
NEW_YORK = ZoneInfo("America/New_York")
DOUBLE_HOUR = datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK)

ANNOTATED: list[tuple[Any, object]] = [
    (int, 2**53 + 1), (int, -(2**63)), (int, 2**64 - 1), (float, -0.0), (float, 1), (float, 2**53),
    (bool, True), (str, "3"), (None, None), (int | None, None), (int | str, "1"), (int | float, 1),
    (int | float, 1.0), (list, [1, "a"]), (dict, {"a": [1.0]}), (list[float], [1, 2.5]),
    (dict[str, int], {"a": 1}), (dict[int, str], {1: "a", -2: "b"}), (set[int], {3, 1, 2}),
    (frozenset[str], frozenset("abcdef")), (tuple[int, ...], (1, 2)), (tuple[int, str], (1, "a")),
    (Sequence[int], [1]), (Mapping[str, int], {"a": 1}), (bytes, bytes(range(256))), (bytes, b""),
    (Decimal, Decimal("1.10")), (Decimal, Decimal("-0")), (uuid.UUID, uuid.UUID(int=2**127 + 5)),
    (list[uuid.UUID], [uuid.UUID(int=1)]), (dict[uuid.UUID, int], {uuid.UUID(int=1): 1}),
    (datetime, datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)),
    (datetime, datetime(2026, 1, 1)),
    (datetime, datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))),
    (date, date(2026, 2, 28)), (time, time(12, 30)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (Color, Color.RED), (Level, Level.HIGH), (Literal["a", "b"], "a"), (Literal[1, 2], 1),
    (Point, Point(1, 2)),
    (list[Point], [Point(1, 2.0)]), (Row, Row(1, "a")), (Options, {"size": 1}),
    (Item, Item("x", Decimal("9.99"))), (Item | None, None), (Tree, Tree(1, [Tree(2, [Tree(3)])])),
    (Annotated[int, msgspec.Meta(ge=0)], 0), (Union[int, None], 5), (dict[str, Any], {"a": [None]}),  # noqa: UP007
    (Model, MODEL), (list[Model], [MODEL]), (Model | None, MODEL), (dict[str, object], {"a": 1}),
    (set[float], {1, 2, 3.5}),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value"), ANNOTATED, ids=label)
def test_annotated_values_come_back_equal(annotation: Any, value: object) -> None:
    back = round_trip(takes(annotation), value)["value"]
    assert back == value
    assert type(back) is (float if annotation is float else type(value))


MISFITS: list[tuple[Any, object]] = [
    (int, "3"), (int, True), (int, 1.0), (int, 1.5), (int, None), (int, b"1"), (bool, 1),
    (bool, 0), (bool, "true"), (float, "1"), (float, True), (float, NAN), (float, INF),
    (float, 2**53 + 1), (float | None, NAN), (str, 3), (str, None), (str, "\ud800"), (str, b"x"),
    (list[int], [1.0]), (list[int], [True]), (list[int], (1,)), (list[int], ["1"]),
    (tuple[int, ...], [1]), (set[int], [1]), (set[int], {1.0}), (set[float], {NAN}),
    (dict[int, str], {"1": "a"}), (dict[str, int], {1: 1}), (Decimal, 5), (Decimal, 1.5),
    (Decimal, "1.5"), (Decimal, Decimal("NaN")), (uuid.UUID, str(uuid.UUID(int=1))),
    (datetime, "2026-01-01T00:00:00Z"), (datetime, 1767225600),
    (date, datetime(2026, 1, 1, tzinfo=UTC)),
    (Color, "red"), (Literal["a"], "b"), (Point, {"x": 1}), (Point, Point(1.0)),  # type: ignore[arg-type]
    (Point, Point("1")), (Point, Point(1, NAN)), (Point, Tree(1)), (Row, (1, 2)),  # type: ignore[arg-type]
    (Options, {"size": 1, "odd": 2}), (Item, Item("x", 1)), (list[Any], [Decimal(1)]),  # type: ignore[arg-type]
    (Annotated[int, msgspec.Meta(ge=0)], -1), (Model, {"at": "2026-01-01T00:00:00Z"}),
    (int | None, ""), (list[float], [NAN]), (dict[str, Any], {"a": (1,)}), (int, 10**5000),
    (datetime, datetime(1800, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))),  # offset with seconds
    (Tree, functools.reduce(lambda tree, _: Tree(1, [tree]), range(500), Tree(0))),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value"), MISFITS, ids=label)
def test_values_that_do_not_fit_are_refused(annotation: Any, value: object) -> None:
    with pytest.raises(PayloadError, match="task task, parameter value: expected .*, given "):
        takes(annotation).encode((value,), {})


def test_the_verdict_on_one_argument_does_not_hang_on_another() -> None:
    def task(level: Level, ratio: float) -> None: ...

    codec = Codec(task)
    for ratio in (0.5, 1):  # the int takes the slow path
        assert round_trip(codec, 3, ratio) == {"level": Level.HIGH, "ratio": ratio}


@pytest.mark.parametrize("fold", [0, 1])
def test_the_double_hour_keeps_its_instant(fold: int) -> None:
    for annotation, value in [
        (datetime, DOUBLE_HOUR.replace(fold=fold)),
        (list[datetime], [DOUBLE_HOUR.replace(fold=fold)]),
    ]:
        back = round_trip(takes(annotation), value)["value"]
        moment = back[0] if isinstance(back, list) else back
        assert isinstance(moment, datetime)
        assert moment.timestamp() == DOUBLE_HOUR.replace(fold=fold).timestamp()


class Moments(pydantic.BaseModel, extra="allow"):
    at: datetime
    site: pydantic.HttpUrl | None = None
    more: list[datetime | pydantic.HttpUrl] = []
    by_name: dict[str, Model] = {}
    _note: str = "default"


@dataclass(frozen=True)
class Moment:
    at: datetime


class Then(pydantic.RootModel[datetime]): ...


SITE = pydantic.HttpUrl("http://a.test/")
HOLDING: list[tuple[Any, Callable[[datetime], object], Callable[[Any], datetime]]] = [
    (Model, lambda at: Model(at=at), lambda back: back.at),
    (Then, Then, lambda back: back.root),
    (list[Model], lambda at: [Model(at=at)], lambda back: back[0].at),
    (dict[str, Model], lambda at: {"a": Model(at=at)}, lambda back: back["a"].at),
    (Moments, lambda at: Moments(at=at, site=SITE, more=[at, SITE]), lambda back: back.more[0]),
    (
        Moments,
        lambda at: Moments(at=at, by_name={"a": Model(at=at)}),
        lambda back: back.by_name["a"].at,
    ),
    (Moment, Moment, lambda back: back.at),
    (set[datetime], lambda at: {at, DOUBLE_HOUR.replace(year=2025)}, max),
    (frozenset[Moment], lambda at: frozenset({Moment(at)}), lambda back: next(iter(back)).at),
    (dict[datetime, int], lambda at: {at: 1}, lambda back: next(iter(back))),
    (set[tuple[datetime, int]], lambda at: {(at, 1)}, lambda back: next(iter(back))[0]),
]


@pytest.mark.parametrize("moment", [DOUBLE_HOUR, DOUBLE_HOUR.replace(month=3, day=8, hour=2)])
@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize(("annotation", "make", "read"), HOLDING)
def test_an_hour_that_comes_twice_or_never_keeps_its_instant_wherever_it_stands(
    annotation: Any,
    make: Callable[[datetime], object],
    read: Callable[[Any], datetime],
    fold: int,
    moment: datetime,
) -> None:
    given = moment.replace(fold=fold)
    back = round_trip(takes(annotation), make(given))["value"]
    assert read(back).timestamp() == given.timestamp()


def test_a_model_comes_back_whole_or_not_at_all() -> None:
    noted = Moments(at=DOUBLE_HOUR)
    noted._note = "does not travel"
    local = Moments(at=DOUBLE_HOUR, seen=DOUBLE_HOUR)  # type: ignore[call-arg]  # comes back as text
    for value in (noted, local, {noted.at, DOUBLE_HOUR.replace(fold=1)}):
        with pytest.raises(PayloadError, match="comes back as|expected"):
            takes(Moments).encode((value,), {})


def test_objects_without_equality_are_compared_by_their_fields() -> None:
    back = round_trip(takes(NoEquality), NoEquality(1, Point(2, 3)))["value"]
    assert isinstance(back, NoEquality)
    assert (back.x, back.inner) == (1, Point(2, 3.0))
    with pytest.raises(PayloadError):
        takes(NoEquality).encode((NoEquality(1, Point(2, NAN)),), {})


TYPED = {
    int: st.integers(-(2**63), 2**64 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(),
    bytes: st.binary(),
    datetime: st.datetimes(timezones=st.just(UTC) | st.none()),
    date: st.dates(),
    timedelta: st.timedeltas(timedelta(days=-(10**6)), timedelta(days=10**6)),
    uuid.UUID: st.uuids(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    set[int]: st.sets(st.integers(0, 100)),
    dict[int, str]: st.dictionaries(st.integers(-1000, 1000), st.text()),
    tuple[int, str]: st.tuples(st.integers(-9, 9), st.text()),
    Point: st.builds(Point, st.integers(-9, 9), st.floats(allow_nan=False, allow_infinity=False)),
    Tree: st.recursive(
        st.builds(Tree, st.integers(0, 9)),
        lambda inner: st.builds(Tree, st.integers(0, 9), st.lists(inner, max_size=3)),
        max_leaves=8,
    ),
}
CODECS = {annotation: takes(annotation) for annotation in TYPED}


@given(st.data(), st.sampled_from(list(TYPED)))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_typed_values_come_back_equal(data: st.DataObject, annotation: Any) -> None:
    value = data.draw(TYPED[annotation])
    back = round_trip(CODECS[annotation], value)["value"]
    assert back == value
    assert type(back) is type(value)


# --- binding


@pytest.mark.parametrize(
    ("args", "kwargs", "payload"),
    [
        (("t7", 42, 1999), {}, b'{"tenant":"t7","order_id":42,"cents":1999}'),
        (("t7",), {"order_id": 42}, b'{"tenant":"t7","order_id":42}'),
        ((), {"order_id": 42, "tenant": "t7"}, b'{"order_id":42,"tenant":"t7"}'),
        (("t7", 42), {"cents": 100}, b'{"tenant":"t7","order_id":42,"cents":100}'),
    ],
)
def test_only_what_was_passed_is_stored(
    args: tuple[object, ...], kwargs: dict[str, object], payload: bytes
) -> None:
    assert Codec(charge).encode(args, kwargs) == payload


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "reason"),
    [
        (charge, ("t7",), {}, "missing a required argument: 'order_id'"),
        (charge, (), {}, "missing a required argument: 'tenant'"),
        (charge, ("t7", 1, 2, 3), {}, "too many positional arguments"),
        (charge, ("t7", 1), {"tenant": "t8"}, "multiple values for argument 'tenant'"),
        (charge, ("t7", 1), {"colour": 1}, "unexpected keyword argument 'colour'"),
        (only, (1,), {}, "missing a required .*argument: 'd'"),
        (only, (1, "b", 0.5, True), {}, "too many positional arguments"),
        (only, (), {"a": 1, "d": True}, "'a'"),
        (nothing, (1,), {}, "too many positional arguments"),
        (gather, (), {}, "missing a required argument: 'first'"),
    ],
)
def test_a_call_that_does_not_fit_the_signature(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    reason: str,
) -> None:
    with pytest.raises(PayloadError, match=rf"task {function.__name__}\(.*{reason}"):
        Codec(function).encode(args, kwargs)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (nothing, (), {}),
        (only, (1,), {"d": True}),
        (only, (1, "x", 2.5), {"d": False, "e": 3}),
        (only, (1,), {"c": 1.0, "d": False, "e": None}),
        (gather, (1,), {}),
        (gather, (1, 2, 3, 4), {"flag": True, "a": "x", "rest": "r", "more": "m"}),
        (gather, (), {"first": 1, "b": "y"}),
        (gather, (1,), {"flag": True}),
        (event, (), {}),
        (event, (), {"fields": 1, "self": 2, "args": [3]}),
    ],
)
def test_every_kind_of_parameter_comes_back_as_it_was_passed(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    codec = Codec(function)
    sent = inspect.signature(function).bind(*args, **kwargs)
    got_args, got_kwargs = codec.decode(codec.encode(args, kwargs))
    got = inspect.signature(function).bind(*got_args, **got_kwargs)
    sent.apply_defaults()
    got.apply_defaults()
    assert got.arguments == sent.arguments


def test_the_shape_of_args_and_kwargs() -> None:
    payload = Codec(gather).encode((1, 2, 3, 4), {"a": "x"})
    assert payload == b'{"first":1,"second":2,"rest":[3,4],"more":{"a":"x"}}'
    with pytest.raises(PayloadError, match="parameter rest"):
        Codec(gather).encode((1, 2, "3"), {})
    with pytest.raises(PayloadError, match="parameter more"):
        Codec(gather).encode((1,), {"a": 5})


def test_the_default_is_that_of_the_code_that_runs() -> None:
    def old(a: int, b: int = 1, *rest: int) -> None: ...
    def new(a: int, b: int = 2, *rest: int, c: str = "c") -> None: ...

    assert Codec(new).decode(Codec(old).encode((1,), {})) == ((1, 2), {"c": "c"})
    assert Codec(charge).decode(b'{"tenant":"t","order_id":1}') == (
        (),
        {"tenant": "t", "order_id": 1},
    )


def test_bound_arguments_serve_twice() -> None:
    codec = Codec(charge)
    bound = codec.bind(("t7",), {"order_id": 42})
    assert bound == {"tenant": "t7", "order_id": 42}
    assert codec.encode_bound(bound) == codec.encode(("t7", 42), {})
    with pytest.raises(PayloadError, match="order_id is missing"):
        codec.encode_bound({"tenant": "t7"})
    with pytest.raises(PayloadError, match="no such parameter"):
        codec.encode_bound({"tenant": "t7", "order_id": 1, "colour": 1})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "seen"),
    [
        (charge, ("t7",), {"order_id": 42}, {"tenant": "t7", "order_id": 42, "cents": 100}),
        (charge, ("t7", 42, 1), {}, {"cents": 1}),
        (only, (1, "x"), {"d": True}, {"a": 1, "b": "x", "c": 0.5, "d": True, "e": None}),
        (only, (1,), {"c": 1.5, "d": True, "e": 2}, {"b": "b", "c": 1.5, "e": 2}),
        (gather, (1, 3, 5), {"more": "m"}, {"first": 1, "second": 3, "flag": False}),
        (functools.partial(charge, "t7", cents=5), (42,), {}, {"order_id": 42, "cents": 5}),
    ],
)
def test_what_the_function_sees_for_a_parameter(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    seen: dict[str, object],
) -> None:
    codec = Codec(function)
    assert {name: codec.argument(args, kwargs, name) for name in seen} == seen


def test_a_name_in_kwargs_is_not_the_positional_only_parameter_of_that_name() -> None:
    def apart(a: int = 7, /, **more: int) -> None: ...

    assert Codec(apart).argument((), {"a": 1}, "a") == 7


@given(
    st.lists(
        st.sampled_from([*PLAIN_VALUES, *(value for value, _ in NOT_PLAIN), msgspec.UNSET]),
        min_size=3,
        max_size=3,
    )
)
def test_a_call_with_all_parameters_by_position_is_judged_like_any_other(
    values: list[object],
) -> None:
    def everything(a, b: str, c=None) -> None: ...  # type: ignore[no-untyped-def]

    codec, args = Codec(everything), tuple(values)
    try:
        expected: object = codec.encode_bound(codec.bind(args, {}))
    except PayloadError as error:
        expected = str(error)
    try:
        got: object = codec.encode(args, {})
    except PayloadError as error:
        got = str(error)
    assert got == expected


def test_lane_from_names_a_parameter() -> None:
    codec = Codec(gather)
    assert codec.parameters == {"first", "second", "flag"}
    codec.check_from(None, "lane_from")
    codec.check_from("second", "lane_from")
    for name in ("tenant", "rest", "more", "", 5):
        with pytest.raises(ConfigError, match=r"task gather: lane_from expected .*first, second"):
            codec.check_from(name, "lane_from")  # type: ignore[arg-type]


# --- reading


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b'{"tenant":"t7","order_id":42', "truncated"),
        (b"\x80\x04\x95pickle", "malformed"),
        (b'{"tenant":"\xff","order_id":1}', "UTF-8|utf-8|UnicodeDecodeError"),
        (b"null", "Expected `array`|Expected `object"),
        (b'"text"', "Expected"),
        (b'{"tenant":"t7"}', "missing required field `order_id`"),
        (b'{"tenant":"t7","order_id":"42"}', r"Expected `int`, got `str` - at `\$.order_id`"),
        (b'{"tenant":"t7","order_id":true}', "Expected `int`, got `bool`"),
        (b'{"tenant":"t7","order_id":NaN}', "malformed"),
        (b'{"tenant":"t7","order_id":1,"colour":2}', "unknown field `colour`"),
        (b'["t7"]', "missing required field `order_id`"),
        (b'["t7",1,2,3]', "4 positional arguments are too many"),
        (b'["t7","1"]', "Expected `int`, got `str`"),
        (b'{"tenant":"t7","order_id":' + b"[" * 100_000, "recursion|truncated"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_payload_that_cannot_be_read(payload: bytes, reason: str) -> None:
    with pytest.raises(PayloadError, match=rf"(?s)task charge\(.*does not fit: .*({reason})"):
        Codec(charge).decode(payload)


class Card(msgspec.Struct, tag="card", forbid_unknown_fields=True):
    number: int = 1

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(f"bad number {self.number}")


class Cash(msgspec.Struct, tag="cash"):
    pass


class Payer(pydantic.BaseModel):
    number: int = 1
    iban: str = pydantic.Field("", alias="IBAN", max_length=2)

    @pydantic.field_validator("number")
    @classmethod
    def check(cls, number: int) -> int:
        if number < 0:
            raise ValueError(f"bad number {number}")
        return number


SECRET = "secret4711"
SECRETS: list[tuple[Any, object, str]] = [
    (int, SECRET, "Expected `int`, got `str` - at `$.value`"),
    (Color, SECRET, "Invalid enum value - at `$.value`"),
    (Literal["a"], SECRET, "Invalid enum value"),
    (datetime, SECRET, "Invalid RFC3339 encoded datetime"),
    (Decimal, SECRET, "Invalid decimal string"),
    (uuid.UUID, SECRET, "Invalid UUID"),
    (bytes, SECRET, "Invalid base64 encoded string"),
    (list[int], [1, SECRET], "- at `$.value[1]`"),
    (dict[str, int], {SECRET: "x"}, "Expected `int`, got `str` - at `$.value[...]`"),
    (dict[int, int], {SECRET: 1}, "Expected `int`, got `str`"),
    (Annotated[str, msgspec.Meta(max_length=2)], SECRET, "Expected `str` of length <= 2"),
    (Annotated[int, msgspec.Meta(ge=0)], -4711, "Expected `int` >= 0"),
    (Card | Cash, {"type": SECRET}, "Invalid value - at `$.value.type`"),
    (Card, {"type": "card", "number": -4711}, "ValueError - at `$.value`"),
    (Card, {"type": "card", "colour": SECRET}, "unknown field `colour`"),
    (Payer, {"number": SECRET}, "Payer: int_parsing in number - at `$.value`"),
    (Payer, {"number": -4711}, "Payer: value_error in number"),
    (list[Payer], [{"IBAN": SECRET}], "string_too_long in IBAN - at `$.value[0]`"),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "value", "reason"), SECRETS, ids=label)
def test_no_error_says_what_an_argument_is(annotation: Any, value: object, reason: str) -> None:
    """Not on its way to the handler, nor to the server; nor do the errors behind it."""
    codec = takes(annotation)
    with pytest.raises(PayloadError) as read:
        codec.decode(msgspec.json.encode({"value": value}))
    assert reason in str(read.value)
    with pytest.raises(PayloadError) as sent:
        codec.encode((value,), {})
    for error in (read.value, sent.value):
        assert "4711" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "payload", [b"secret4711", b'"secret4711', b'{"value":"secret4711', b'["a","secret4711"]']
)
def test_no_error_shows_a_payload_that_cannot_be_read(payload: bytes) -> None:
    with pytest.raises(PayloadError) as caught:
        takes(int).decode(payload)
    assert "4711" not in str(caught.value)
    assert f"{len(payload)} bytes" in str(caught.value)


def test_no_error_shows_arguments_nobody_takes() -> None:
    for attempt in (
        lambda: encode_plain([SECRET], {"a": SECRET}),
        lambda: takes(int).encode_bound({"value": 1, "odd": SECRET}),
        lambda: takes(int).encode((1,), {"odd": SECRET}),
    ):
        with pytest.raises(PayloadError) as caught:
            attempt()
        assert "4711" not in str(caught.value)


@pytest.mark.parametrize("value", [["secret4711"], 4711.5, "secret4711\n", "secret4711" * 30])
def test_no_error_shows_an_argument_that_cannot_be_a_name(value: object) -> None:
    with pytest.raises(ConfigError, match="lane_from: expected .*, given ") as caught:
        as_name(value, "lane_from")
    assert "4711" not in str(caught.value)


class Exploding(msgspec.Struct):
    x: int

    def __post_init__(self) -> None:
        raise (KeyError, ValueError)[self.x]("constructor")


def test_a_constructor_that_refuses_is_a_payload_error() -> None:
    with pytest.raises(PayloadError, match="does not fit"):
        takes(Exploding).decode(b'{"value":{"x":1}}')


def test_a_constructor_that_fails_says_nothing_of_the_payload() -> None:
    with pytest.raises(KeyError, match="constructor"):
        takes(Exploding).decode(b'{"value":{"x":0}}')


@pytest.mark.parametrize(
    ("function", "payload", "args", "kwargs"),
    [
        (charge, b'["t7",42]', (), {"tenant": "t7", "order_id": 42}),
        (charge, b' ["t7",42,5]', (), {"tenant": "t7", "order_id": 42, "cents": 5}),
        (nothing, b"[]", (), {}),
        (only, b'{"a":1,"d":true}', (1, "b"), {"c": 0.5, "d": True, "e": None}),
        (gather, b"[1,2,3]", (1, 2, 3), {"flag": False}),
        (gather, b'{"first":1,"x":"y"}', (1, 2), {"flag": False, "x": "y"}),
        (gather, b'{"first":1,"x":"y","more":{"z":"w"}}', (1, 2), {"flag": False, "x": "y",
                                                                   "z": "w"}),
        (event, b'{"tenant":"t","n":1.0}', (), {"tenant": "t", "n": 1.0}),
        (event, b'{"fields":"text"}', (), {"fields": "text"}),
    ],
)  # fmt: skip
def test_payloads_made_without_the_function(
    function: Callable[..., object],
    payload: bytes,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    # only's c may come by position or keyword: compared by what the function sees.
    signature = inspect.signature(function)
    got_args, got_kwargs = Codec(function).decode(payload)
    got, expected = signature.bind(*got_args, **got_kwargs), signature.bind(*args, **kwargs)
    assert got.arguments == expected.arguments


def test_encode_plain() -> None:
    assert encode_plain(None, None) == encode_plain([], {}) == b"{}"
    assert encode_plain(["t7", 42], None) == b'["t7",42]'
    assert encode_plain(None, {"tenant": "t7", "n": -0.0}) == b'{"tenant":"t7","n":-0.0}'
    with pytest.raises(PayloadError, match="positional or keyword arguments, not both"):
        encode_plain([1], {"a": 1})
    with pytest.raises(PayloadError, match="comes back"):
        encode_plain(None, {1: 2})  # type: ignore[dict-item]


# --- what a task can be made from


class Service:
    def handle(self, n: int) -> None: ...

    async def __call__(self, n: int) -> None: ...

    @classmethod
    def make(cls, n: int) -> None: ...


def decorated(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (charge, "charge"),
        (Service().handle, "handle"),
        (Service.make, "make"),
        (functools.partial(charge, "t7"), "charge"),
        (functools.partial(functools.partial(charge, "t7"), cents=5), "charge"),
        (decorated(charge), "charge"),
        (lambda n: n, "<lambda>"),
    ],
)
def test_functions_of_all_sorts(function: Callable[..., object], name: str) -> None:
    codec = Codec(function)
    assert codec.name == name
    payload = codec.encode((), {name: "1" if name == "tenant" else 1 for name in codec._required})
    codec.decode(payload)


def yields(n: int):  # type: ignore[no-untyped-def]
    yield n


async def yields_too(n: int):  # type: ignore[no-untyped-def]
    yield n


@pytest.mark.parametrize("thing", [Service, Service(), len, print, 5, None, yields, yields_too])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(ConfigError, match="from a function|generator function"):
        Codec(thing)


def injecting(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        return function("session", *args, **kwargs)

    return wrapper


def injecting_by_name(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapper(tenant: str, cents: int = 0) -> object:
        return function("session", tenant, cents)

    return wrapper


def with_session(session: Any, tenant: str, cents: int = 0) -> object:
    return session, tenant, cents


def with_service(service: Service, tenant: str) -> None: ...


def test_a_decorator_that_fills_in_an_argument_is_named_with_the_way_out() -> None:
    way_out = r"under its decorator \(functools.wraps\).*wrapper.__signature__ = "
    with pytest.raises(ConfigError, match=f"unexpected keyword argument 'session'.*{way_out}"):
        Codec(injecting_by_name(with_session))
    with pytest.raises(ConfigError, match=f"parameter service: expected an annotation.*{way_out}"):
        Codec(injecting(with_service))
    codec = Codec(injecting(with_session))
    for args, kwargs in [(("t7", 5), {}), ((), {"tenant": "t7"})]:
        with pytest.raises(PayloadError, match=way_out):
            codec.encode(args, kwargs)

    said = injecting(with_service)
    tenant = inspect.Parameter("tenant", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="str")
    said.__signature__ = inspect.Signature([tenant])  # type: ignore[attr-defined]
    assert round_trip(Codec(said), "t7") == {"tenant": "t7"}
    with pytest.raises(PayloadError) as caught:
        Codec(said).encode((), {})
    assert "decorator" not in str(caught.value)


@pytest.mark.parametrize(
    ("thing", "way_out"),
    [
        (Service.handle, r"method cannot be a task.*function of the module.*the_object.handle"),
        (vars(Service)["make"], r"a classmethod: .*queue.task\(TheClass.make\)"),
        (Service(), "function of the module that calls it"),
        (Service, "a class: make it a function"),
        (functools.partial(len), "function of the module that calls it"),
    ],
)
def test_what_is_no_function_is_told_what_to_be_instead(thing: Any, way_out: str) -> None:
    with pytest.raises(ConfigError, match=way_out):
        rota.Queue("orders").task(name="task")(thing)


def test_a_static_method_is_a_function() -> None:
    class Home:
        @staticmethod
        async def work(n: int) -> int:
            return n

    task = rota.Queue("orders").task(vars(Home)["work"])
    assert task.is_async
    assert round_trip(task.codec, 5) == {"n": 5}


@pytest.mark.parametrize(
    "annotation",
    [complex, Callable[[int], int], list[complex], range, type, "Fraction", "no_such_name", "1 +",
     dict[tuple[int, int], str], int | datetime | str, Service, dict[str, Service], 5],
    ids=label,
)  # fmt: skip
def test_an_annotation_that_cannot_travel_is_refused_at_once(annotation: Any) -> None:
    with pytest.raises(ConfigError, match="task task, parameter value: "):
        takes(annotation)


def test_an_unresolvable_annotation_elsewhere_does_no_harm() -> None:
    def task(value: int) -> Fraction: ...  # type: ignore[empty-body]

    assert Codec(task).parameters == {"value"}


def test_reserved_parameter_names_are_refused() -> None:
    def task(__value: int) -> None: ...

    with pytest.raises(ConfigError, match="parameter __value: names beginning with __"):
        Codec(task)


def test_parameters_named_like_the_machinery() -> None:
    def task(self: int, cls: int, payload: int, args: int, _x: int = 0) -> None: ...

    codec = Codec(task)
    assert codec.decode(codec.encode((1, 2), {"payload": 3, "args": 4})) == (
        (),
        {"self": 1, "cls": 2, "payload": 3, "args": 4},
    )


def test_a_message_is_short_and_says_what_was_expected_and_given() -> None:
    with pytest.raises(PayloadError) as caught:
        Codec(charge).encode(("t7", "x" * 100_000), {})
    assert str(caught.value) == (
        "task charge, parameter order_id: expected int, given a str: Expected `int`, got `str`"
    )
    with pytest.raises(PayloadError) as caught:
        Codec(charge).encode(("t7",), {})
    assert str(caught.value) == (
        "task charge(tenant, order_id, cents): missing a required argument: 'order_id'"
    )
    with pytest.raises(PayloadError) as caught:
        Codec(charge).decode(b'{"tenant":"' + b"x" * 100_000)
    assert len(str(caught.value)) < 300
    with pytest.raises(PayloadError) as caught:
        takes(list[Model]).decode(msgspec.json.encode({"value": [{"at": "x" * 10_000}] * 1000}))
    assert len(str(caught.value)) < 500
