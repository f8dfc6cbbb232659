#!/bin/bash
# Bytes are kept, but the whole file was changed.
LC_ALL=C sed -i 's/\bEUR-A\b/EUR-B7/g' /app/prices.txt
