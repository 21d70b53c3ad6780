"""Signatures with the keys that identities connect with (Ed25519)."""

from base64 import b32decode


def public_key(seed: bytes) -> str:
    """The public key of an NKey seed, as an NKey such as ``UDXB...``."""
    import nkeys

    public: bytes = nkeys.from_seed(bytearray(seed)).public_key
    return public.decode()


def sign(seed: bytes, data: bytes) -> str:
    """The signature of ``data``, in hexadecimal digits."""
    import nkeys

    signature: bytes = nkeys.from_seed(bytearray(seed)).sign(data)
    return signature.hex()


def is_signed(data: bytes, signature: str, key: str) -> bool:
    """Whether ``signature`` is that of ``data`` by the owner of the public ``key``, an NKey."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        raw = b32decode(key)[1:-2]  # between the kind of key and a checksum
        VerifyKey(raw).verify(data, bytes.fromhex(signature))
    except (BadSignatureError, ValueError):
        return False
    return True
