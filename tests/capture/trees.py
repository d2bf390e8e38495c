"""Trees of files made from a seed, and what tells whether two trees are the same."""

import hashlib
import os
import pathlib
import random

#: Sizes of files as in a tree of sources: most are small, few are not.
SIZES = [200, 700, 1500, 3000, 3000, 6000, 9000, 15000, 40000]


def content(random_numbers):
    """Text that compresses about as well as source text does."""
    size = random_numbers.choice(SIZES) + random_numbers.randrange(200)
    words = random_numbers.randbytes(size // 8).hex()
    return "\n".join(words[at:at + 60] for at in range(0, len(words), 60)).encode() * 4


def make(top, files, seed, per_directory=60):
    """Makes a tree of so many files, directories two deep."""
    numbers = random.Random(seed)
    for number in range(files):
        directory = top / f"d{number // per_directory % 40:02}" / f"e{number // per_directory // 40:03}"
        if number % per_directory == 0:
            directory.mkdir(parents=True, exist_ok=True)
        (directory / f"file{number:05}.c").write_bytes(content(numbers)[:numbers.choice(SIZES)])


def change(top, share, seed):
    """Changes, renames and removes such a share of a tree's files each, and adds as many."""
    numbers = random.Random(seed)
    files = sorted(p for p in top.rglob("*") if p.is_file() and ".git" not in p.parts)
    count = int(len(files) * share)
    chosen = numbers.sample(files, 3 * count)
    for path in chosen[:count]:
        path.write_bytes(content(numbers)[:numbers.choice(SIZES)])
    for path in chosen[count:2 * count]:
        path.rename(path.with_suffix(".moved"))
    for path in chosen[2 * count:]:
        path.unlink()
    for number in range(count):
        directory = top / f"new{number % 20:02}"
        directory.mkdir(exist_ok=True)
        (directory / f"added{number:05}.h").write_bytes(content(numbers)[:numbers.choice(SIZES)])


def digest(top, without=()):
    """Of names, types, permissions and contents below a directory."""
    total = hashlib.sha256()
    for directory, names, files in os.walk(top):
        names[:] = sorted(name for name in names if name not in without)
        for name in sorted(files) + names:
            path = pathlib.Path(directory, name)
            status = path.lstat()
            total.update(f"{path.relative_to(top)}\0{status.st_mode:o}\0".encode())
            if path.is_symlink():
                total.update(os.readlink(path).encode())
            elif path.is_file():
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]
