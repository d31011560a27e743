"""JSON Web Tokens and the keys that they are checked with [11.1]."""

import base64
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from comfyrail.access import jwks
from comfyrail.access.jwks import FixedKey, KeySet, TokenKey, read_key_set
from comfyrail.access.permissions import ALL, OF_USERS, Permission
from comfyrail.access.tokens import LEEWAY_SECONDS, TokenReader, TokenRules
from comfyrail.errors import NotReady, Unauthorized
from tests.access.gate_parts import (
    SECRET,
    HandClock,
    claims,
    key_set,
    new_private_key,
    public_jwk,
    token,
)


class Issuer:
    """The endpoint of a key set, as somebody else runs it."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.content = key_set(*keys)
        self.is_down = False
        self.fetches = 0

    async def fetch(self) -> bytes:
        self.fetches += 1
        if self.is_down:
            raise OSError("it is down")
        return self.content


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def reader(clock: HandClock) -> TokenReader:
    return with_secret(clock)


def with_secret(clock: HandClock, rules: TokenRules | None = None) -> TokenReader:
    key = TokenKey(SECRET.encode(), ("HS256",))
    return TokenReader(FixedKey(key), clock, rules or TokenRules())


def with_keys(issuer: Issuer, clock: HandClock) -> TokenReader:
    return TokenReader(KeySet(issuer.fetch, clock), clock, TokenRules())


async def refusal(reader: TokenReader, text: str) -> Unauthorized:
    with pytest.raises(Unauthorized) as raised:
        await reader.read(text)
    return raised.value


async def test_token_says_who_somebody_is(reader: TokenReader) -> None:
    read = await reader.read(token(permissions=["jobs:read", "nonsense:read"]))
    assert (read.user_id, read.tier) == ("ann", "pro")
    assert read.permissions == {Permission.JOBS_READ}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, OF_USERS),
        ([], frozenset()),
        ("jobs:read jobs:write", {Permission.JOBS_READ, Permission.JOBS_WRITE}),
        (["*"], ALL),
        ("nonsense", frozenset()),
    ],
)
async def test_permissions_are_a_list_or_words_and_those_of_users_where_nothing_is_said(
    reader: TokenReader, said: Any, meant: frozenset[Permission]
) -> None:
    assert (await reader.read(token(permissions=said))).permissions == meant


async def test_token_without_a_tier_is_free_and_sub_may_name_the_user(reader: TokenReader) -> None:
    read = await reader.read(token(user_id=None, sub="bob", tier=None))
    assert (read.user_id, read.tier) == ("bob", "free")


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "no user": {"user_id": None},
    "an empty user": {"user_id": ""},
    "a user that is a number": {"user_id": 7},
    "a tier that there is not": {"tier": "platinum"},
    "a tier that is a list": {"tier": ["pro"]},
    "no expiry": {"exp": None},
    "an expiry that is a word": {"exp": "never"},
    "an expiry that is no number": {"exp": float("inf")},
    "an expiry beyond all dates": {"exp": 10**300},
    "permissions that are a number": {"permissions": 1},
    "permissions that are numbers": {"permissions": [1]},
    "a time before which it does not count": {"nbf": 1 << 33},
    "a time in the future at which it was made": {"iat": 1 << 33},
}


@pytest.mark.parametrize("changes", BAD_CLAIMS.values(), ids=BAD_CLAIMS)
async def test_token_that_does_not_say_what_it_must_is_refused(
    reader: TokenReader, changes: dict[str, Any]
) -> None:
    assert (await refusal(reader, token(**changes))).code == "TOKEN_INVALID"


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsigned(**header: Any) -> str:
    return f"{part(header)}.{part(claims())}."


def tampered() -> str:
    header, _, signature = token().split(".")
    return f"{header}.{part(claims(user_id='admin'))}.{signature}"


FORGED = {
    "signed by nobody": unsigned(alg="none", typ="JWT"),
    "signed by nobody, in capitals": unsigned(alg="NONE"),
    "no algorithm": unsigned(typ="JWT"),
    "an algorithm that is a list": unsigned(alg=["HS256"]),
    "signed with another secret": token("another secret of at least 32 bytes!!"),
    "signed with a stronger algorithm than agreed": token(SECRET * 2, "HS512"),
    "its claims changed": tampered(),
    "too long": token(user_id="a" * 9000),
    "not ASCII": "ä.ö.ü",
    "nested deeply": f"{part({'alg': 'HS256'})}.{'W1' * 3000}.AAAA",
    "empty parts": "..",
    "half a token": token().rpartition(".")[0],
    "a critical header that nobody knows": jwt.encode(
        claims(), SECRET, "HS256", {"crit": ["mine"], "mine": 1}
    ),
}


@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
async def test_forged_token_is_refused_and_told_nothing_more(
    reader: TokenReader, text: str
) -> None:
    refused, other = await refusal(reader, text), await refusal(reader, "x.y.z")
    assert (refused.code, refused.message) == ("TOKEN_INVALID", other.message)


async def test_token_counts_until_it_expires_and_half_a_minute_longer(
    reader: TokenReader, clock: HandClock
) -> None:
    text = token(exp=clock.now() / 1000 + 100)
    clock.seconds += 100 + LEEWAY_SECONDS - 1
    await reader.read(text)
    clock.seconds += 2
    assert (await refusal(reader, text)).code == "TOKEN_EXPIRED"


async def test_token_that_came_expired_is_refused(reader: TokenReader, clock: HandClock) -> None:
    old = token(exp=clock.now() / 1000 - LEEWAY_SECONDS - 5)
    assert (await refusal(reader, old)).code == "TOKEN_EXPIRED"


async def test_issuer_and_audience_count_where_they_are_set(clock: HandClock) -> None:
    reader = with_secret(clock, TokenRules("https://id.example.com", "comfyrail"))
    right: dict[str, Any] = {"iss": "https://id.example.com", "aud": ["comfyrail", "other"]}
    await reader.read(token(**right))
    for wrong in ({"iss": "https://evil.example.com"}, {"aud": "other"}, {"iss": None}):
        assert (await refusal(reader, token(**{**right, **wrong}))).code == "TOKEN_INVALID"


async def test_audience_of_a_token_does_not_matter_where_none_is_set(reader: TokenReader) -> None:
    assert (await reader.read(token(aud="somebody"))).user_id == "ann"


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("RSA", "RS256"),
        ("RSA", "RS512"),
        ("RSA", "PS384"),
        ("P-256", "ES256"),
        ("P-384", "ES384"),
        ("Ed25519", "EdDSA"),
    ],
)
async def test_tokens_are_checked_with_public_keys(
    clock: HandClock, kind: str, algorithm: str
) -> None:
    private = new_private_key(kind)
    reader = with_keys(Issuer(public_jwk(private, kind)), clock)
    assert (await reader.read(token(private, algorithm))).user_id == "ann"
    other = token(new_private_key(kind), algorithm)
    assert (await refusal(reader, other)).code == "TOKEN_INVALID"


async def test_public_key_is_never_taken_for_a_secret(clock: HandClock) -> None:
    private = new_private_key("RSA")
    jwk = public_jwk(private, "RSA", kid="a")
    reader = with_keys(Issuer(jwk), clock)
    public = private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, der, json.dumps(jwk).encode(), jwk["n"].encode()):
        content = f"{part({'alg': 'HS256', 'kid': 'a'})}.{part(claims())}"
        signature = hmac.digest(secret, content.encode(), "sha256")
        text = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        assert (await refusal(reader, f"{content}.{text}")).code == "TOKEN_INVALID"


async def test_algorithm_that_a_key_names_is_its_only_one(clock: HandClock) -> None:
    private = new_private_key("RSA")
    reader = with_keys(Issuer(public_jwk(private, "RSA", alg="RS256")), clock)
    await reader.read(token(private, "RS256"))
    assert (await refusal(reader, token(private, "PS256"))).code == "TOKEN_INVALID"


async def test_of_several_keys_a_token_names_the_one_that_it_is_signed_with(
    clock: HandClock,
) -> None:
    first, second = new_private_key("P-256"), new_private_key("P-256")
    issuer = Issuer(public_jwk(first, "P-256", kid="1"), public_jwk(second, "P-256", kid="2"))
    reader = with_keys(issuer, clock)
    await reader.read(token(second, "ES256", kid="2"))
    for text in (token(second, "ES256"), token(second, "ES256", kid="1")):
        assert (await refusal(reader, text)).code == "TOKEN_INVALID"


async def test_unknown_key_is_looked_for_once_a_minute(clock: HandClock) -> None:
    old, new = new_private_key("P-256"), new_private_key("P-256")
    issuer = Issuer(public_jwk(old, "P-256", kid="old"))
    reader = with_keys(issuer, clock)
    await reader.read(token(old, "ES256", kid="old"))
    issuer.content = key_set(public_jwk(new, "P-256", kid="new"))
    for number in range(20):
        await refusal(reader, token(new, "ES256", kid=f"guess-{number}"))
    assert issuer.fetches == 1
    clock.seconds += jwks.REFRESH_SECONDS
    await reader.read(token(new, "ES256", kid="new"))
    assert issuer.fetches == 2
    # A key that was taken back does not count because of what is remembered.
    assert (await refusal(reader, token(old, "ES256", kid="old"))).code == "TOKEN_INVALID"


async def test_known_keys_go_on_counting_while_the_issuer_is_down(clock: HandClock) -> None:
    private = new_private_key("P-256")
    issuer = Issuer(public_jwk(private, "P-256", kid="1"))
    reader = with_keys(issuer, clock)
    await reader.read(token(private, "ES256", kid="1"))
    issuer.is_down = True
    clock.seconds += jwks.REFRESH_SECONDS
    with pytest.raises(NotReady):  # it may be a new key: nobody is to blame for it
        await reader.read(token(private, "ES256", kid="2"))
    await reader.read(token(private, "ES256", kid="1", user_id="bob"))


async def test_without_any_keys_yet_nobody_is_called_a_forger(clock: HandClock) -> None:
    issuer = Issuer()
    issuer.is_down = True
    with pytest.raises(NotReady) as raised:
        await with_keys(issuer, clock).read(token(new_private_key("P-256"), "ES256"))
    assert raised.value.code == "TOKEN_KEYS_UNAVAILABLE"


def test_secrets_small_keys_and_keys_for_encryption_are_left_out_of_a_key_set() -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    small = rsa.generate_private_key(65537, 1024)
    useless = (
        {"kty": "oct", "k": "c2VjcmV0"},
        public_jwk(small, "RSA"),
        public_jwk(new_private_key("P-256"), "P-256", use="enc"),
        public_jwk(new_private_key("P-256"), "P-256", alg="HS256"),
        {"kty": "RSA", "n": "!", "e": None},
        {"kty": ["RSA"]},
    )
    with pytest.raises(ValueError, match="no public key"):
        read_key_set(key_set(*useless))
    for text in (b"", b"[]", b'{"keys": 1}', b"[" * 100_000, b"\xff"):
        with pytest.raises(ValueError, match="Key Set"):
            read_key_set(text)
