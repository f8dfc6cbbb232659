#!/bin/sh
# PID 1 of a Linux that runs as a program (see ../test_cgroup2.py): this machine's files, read-only, cgroups of version 2
# alone, and one Python program; its output goes to the console.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PYTHONDONTWRITEBYTECODE=1 TMPDIR=/mnt
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o size=300m tmpfs /mnt
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
"$MISSTEP_PYTHON" "$MISSTEP_PROGRAM" "$MISSTEP_MODULE" < /dev/null
echo o > /proc/sysrq-trigger
sleep 10
