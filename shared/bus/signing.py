"""Signatures with the keys that identities connect with (Ed25519)."""


def public_key(seed: bytes) -> str:
    """The public key of an NKey seed, in hexadecimal digits."""
    import nkeys

    return bytes(nkeys.from_seed(bytearray(seed))._keys.verify_key).hex()


def sign(seed: bytes, data: bytes) -> str:
    """The signature of ``data``, in hexadecimal digits."""
    import nkeys

    signature: bytes = nkeys.from_seed(bytearray(seed)).sign(data)
    return signature.hex()


def is_signed(data: bytes, signature: str, key: str) -> bool:
    """Whether ``signature`` is that of ``data`` by the owner of the public ``key``."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        VerifyKey(bytes.fromhex(key)).verify(data, bytes.fromhex(signature))
    except (BadSignatureError, ValueError):
        return False
    return True
