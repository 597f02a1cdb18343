import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.consumers.worker.messages import (
    Checkpoint,
    Generate,
    Hello,
    HostWork,
    Loaded,
    LoadFailed,
    Result,
    ResultKind,
    Results,
    Steps,
    Stop,
    decode,
    encode,
)

texts = st.text(max_size=20)
epochs = st.integers(1, 2**53)
works = st.builds(
    HostWork,
    job=texts,
    epoch=epochs,
    prompt=texts,
    seconds=st.floats(0, 60),
    size=texts,
    parameters=st.dictionaries(texts, st.one_of(texts, st.integers(), st.none())),
    folder=texts,
    input=st.none() | texts,
    resume=st.none() | texts,
)
results = st.builds(
    Result,
    kind=st.sampled_from(ResultKind),
    job=texts,
    epoch=epochs,
    gpu_seconds=st.floats(0, 1e6),
    path=texts,
    code=texts,
    message=texts,
)
messages = st.one_of(
    st.builds(Generate, st.lists(works).map(tuple)),
    st.builds(Stop, st.lists(st.tuples(texts, epochs)).map(tuple), st.booleans()),
    st.builds(Hello, st.dictionaries(texts, st.integers())),
    st.builds(Loaded, st.floats(0, 1e4)),
    st.builds(LoadFailed, texts, texts),
    st.builds(Steps, st.lists(st.tuples(texts, epochs, st.integers(0, 99), st.integers(0, 99))).map(tuple)),
    st.builds(Checkpoint, texts, epochs, st.integers(0, 99), texts),
    st.builds(Results, st.lists(results).map(tuple)),
)


@given(messages)
def test_a_message_is_one_line_that_says_all_of_it(message):
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == message


@pytest.mark.parametrize(
    "line", [b"{}\n", b"[]\n", b"nonsense\n", b'{"kind": "hello"}\n', b'{"kind": "stop", "works": 1}\n']
)
def test_what_is_no_message_is_named(line):
    with pytest.raises(ValueError, match=r"no message|JSON|Expecting"):
        decode(line)
