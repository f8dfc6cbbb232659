#!/bin/bash
set -e
python3 - <<'PY'
path = "/app/relay.conf"


def read(name):
    sections, order, section = {"": []}, [""], ""
    for line in open(name).read().splitlines():
        if line.startswith("["):
            section = line
            sections[section] = []
            order.append(section)
        else:
            sections[section].append(line)
    return sections, order


def keys(lines):
    return [line.partition("=")[0].strip() for line in lines if "=" in line and not line.startswith("#")]


old, order = read(path)
new, shipped = read(path + ".new")
for section in shipped:
    if section not in old:
        old[section] = []
        order.append(section)
    for line in new[section]:
        if keys([line]) and keys([line])[0] not in keys(old[section]):
            old[section].append(line)
text = ""
for section in order:
    text += (section + "\n" if section else "") + "".join(line + "\n" for line in old[section])
open(path, "w").write(text)  # the same file: its owner and mode stay
PY
cat /app/relay.conf
