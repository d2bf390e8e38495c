"""Fills an LMDB environment, seeded: puts, overwrites and deletions in several transactions, of values up to several pages.

    fill-lmdb.py DIRECTORY [writemap]

With `writemap` LMDB stores through its mapping and writes back with msync; else it writes pages by calls and reads them
through the mapping. Either way a lock file is mapped shared.
"""

import random
import sys

import lmdb

TRANSACTIONS, PUTS = 12, 60


def main():
    numbers = random.Random(11)
    writemap = sys.argv[2:] == ["writemap"]
    with lmdb.open(sys.argv[1], map_size=16 << 20, writemap=writemap, max_dbs=1) as environment:
        table = environment.open_db(b"table")
        for turn in range(TRANSACTIONS):
            transaction = environment.begin(write=True, db=table)
            for _ in range(PUTS):
                key = f"key{numbers.randrange(400):04}".encode()
                transaction.put(key, numbers.randbytes(numbers.choice([10, 200, 3000, 9000])))
                if numbers.random() < 0.2:
                    transaction.delete(f"key{numbers.randrange(400):04}".encode())
            if turn == TRANSACTIONS // 2:
                transaction.abort()
            else:
                transaction.commit()
        environment.sync(True)


main()
