"""The checksum of the old terminals: reads bytes, prints one line of hexadecimal. Right, and slow."""

import sys


def rotate(value, by):
    bits = [(value >> i) & 1 for i in range(32)]
    return sum(bits[(i - by) % 32] << i for i in range(32))


def checksum(data):
    low, high = 0x1234ABCD, 0
    for position in range(len(data)):
        byte = data[position]
        if byte >= 128:
            byte -= 256  # the terminals' bytes are signed
        low = (low + byte * (position % 251 + 1)) & 0xFFFFFFFF
        high = rotate(high ^ low, (byte & 7) + 1)
        if position % 64 == 63:
            low = (low - (high >> 3)) & 0xFFFFFFFF
    return f"{low:08x}{high:08x}"


if __name__ == "__main__":
    print(checksum(sys.stdin.buffer.read()))
