import os
import sys
from pathlib import Path

wanted = """\
# relay.conf of this site -- talk to Ines before you change the ports
listen = 0.0.0.0:7400
workers = 6                # two a core; measured
timeout = 30
log = /var/log/relay/site.log
retries = 3
[peers]
north = 10.20.0.4:7400
south = 10.20.0.5:7400
[tls]
enabled = no
certificate = /etc/relay/cert.pem
"""
found = Path("/app/relay.conf").read_text()
if [line for line in found.splitlines() if line.strip()] != wanted.splitlines():
    sys.exit(f"the configuration is not as it should be:\n{found}")
seen = os.stat("/app/relay.conf")
child = os.fork()
if not child:
    os.setgroups([])
    os.setgid(1000)
    os.setuid(1000)
    os._exit(0 if os.access("/app/relay.conf", os.R_OK) else 1)
if os.waitpid(child, 0)[1]:
    sys.exit("the service can no longer read its configuration")
if seen.st_mode & 0o007 or seen.st_mode & 0o040 and seen.st_gid not in (0, 1000):
    sys.exit(f"others may read the configuration: mode {seen.st_mode & 0o777:o}")
print("the configuration is up to date, and the site's own settings are kept")
