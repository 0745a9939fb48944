import pytest
from hypothesis import given
from hypothesis import strategies as st

from monolith.wire import Address


@pytest.mark.parametrize(
    ("text", "address", "local"),
    [
        ("127.0.0.1:7001", Address("127.0.0.1", 7001), True),
        ("[::1]:7001", Address("::1", 7001), True),
        (":7001", Address("127.0.0.1", 7001), True),
        ("localhost:1", Address("localhost", 1), True),
        ("unix:/run/a:1.sock", Address(path="/run/a:1.sock"), True),
        ("0.0.0.0:0", Address("0.0.0.0", 0), False),
        ("[::]:7001", Address("::", 7001), False),
        ("ps-3.example.org:7001", Address("ps-3.example.org", 7001), False),
    ],
)
def test_an_address_is_read(text, address, local):
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address
    assert address.is_local is local


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:x", "host:70000", "::1:7001", "unix:", "unix:" + "x" * 200, "h:²"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="address|port|path"):
        Address.parse(text)


@given(st.text())
def test_no_text_does_worse_than_a_value_error(text):
    try:
        address = Address.parse(text)
    except ValueError:
        return
    assert Address.parse(str(address)) == address
