/* The two small programs around bubblewrap; see docs/sandbox.md.
 *
 *   launch   outside: joins cgroups and the user namespace, mounts the layers (and a bounded tmpfs), then execs bwrap.
 *   hold     outside: makes a user namespace, says so, and waits until its standard input closes.
 *   init     PID 1 inside: runs what the host asks for over a socket, moves its output, reaps, and kills by session and
 *            by cookie.
 *
 * init keeps CAP_SYS_PTRACE (it reads other users' /proc/PID/environ) and takes it from everything it starts, so
 * nothing inside may trace it, read its memory or follow its /proc links. As PID 1 it cannot be killed from inside.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COOKIE "MISSTEP_EXEC="

static void die(const char *what) {
    fprintf(stderr, "misstep-init: %s: %s\n", what, strerror(errno));
    _exit(125);
}

static int number(const char *text) { return (int)strtol(text, NULL, 10); }

/* ---------------------------------------------------------------- launch */

static void write_all_text(int fd, const char *text, const char *what) {
    if (write(fd, text, strlen(text)) < 0) die(what);
}

static int launch(int argc, char **argv) {
    int i = 0;
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    for (; i < argc && strcmp(argv[i], "--"); i++) {
        const char *option = argv[i];
        if (!strcmp(option, "--cgroup") && i + 1 < argc) {
            write_all_text(number(argv[++i]), "0", "cannot join the cgroup");
        } else if (!strcmp(option, "--userns") && i + 1 < argc) {
            if (setns(number(argv[++i]), CLONE_NEWUSER)) die("cannot join the user namespace");
            setgroups(0, NULL); /* refused under a single-user map: then there is no group to drop */
            if (setresgid(0, 0, 0)) die("setresgid");
            if (setresuid(0, 0, 0)) die("setresuid");
            prctl(PR_SET_DUMPABLE, 1); /* else /proc/PID belongs to the real root, and no map could be written */
        } else if (!strcmp(option, "--nproc") && i + 1 < argc) {
            rlim_t n = (rlim_t)number(argv[++i]);
            struct rlimit limit = {n, n};
            /* Counted for a user and its namespace: a namespace of this sandbox's own makes the count its own. */
            int ready[2], done[2];
            char byte;
            if (pipe2(ready, O_CLOEXEC) || pipe2(done, O_CLOEXEC)) die("pipe");
            pid_t self = getpid(), helper = fork();
            if (helper < 0) die("fork");
            if (helper == 0) { /* stays in the parent namespace, which alone may write the map */
                char path[64];
                close(ready[1]);
                if (read(ready[0], &byte, 1) != 1) _exit(1);
                const char *map = argv[i + 1];
                for (int k = 0; k < 2; k++) {
                    snprintf(path, sizeof path, "/proc/%d/%s", self, k ? "gid_map" : "uid_map");
                    int fd = open(path, O_WRONLY | O_CLOEXEC);
                    if (fd < 0) die(path);
                    write_all_text(fd, map, path);
                }
                if (write(done[1], "x", 1) != 1) _exit(1);
                _exit(0);
            }
            i++;
            close(done[1]);
            if (unshare(CLONE_NEWUSER)) die("cannot make a user namespace");
            if (write(ready[1], "x", 1) != 1 || read(done[0], &byte, 1) != 1) die("the user map was not written");
            waitpid(helper, NULL, 0);
            close(done[0]), close(ready[0]), close(ready[1]);
            if (setrlimit(RLIMIT_NPROC, &limit)) die("setrlimit");
        } else if (!strcmp(option, "--cores") && i + 1 < argc) {
            cpu_set_t set;
            CPU_ZERO(&set);
            for (char *at = argv[++i]; *at; at += *at == ',') CPU_SET(strtol(at, &at, 10), &set);
            if (sched_setaffinity(0, sizeof set, &set)) die("cannot choose the cores");
        } else if (!strcmp(option, "--mounts")) {
            if (unshare(CLONE_NEWNS)) die("cannot make a mount namespace");
            if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL)) die("cannot make mounts private");
        } else if (!strcmp(option, "--overlay") && i + 2 < argc) {
            /* volatile: nothing is forced to disk when it goes. What a sandbox wrote is kept or thrown away, but a
             * state that the machine's crash cut short is never used. */
            const char *at = argv[++i], *options = argv[++i];
            char *all;
            if (asprintf(&all, "%s,userxattr,volatile", options) < 0) die("asprintf");
            if (mount("overlay", at, "overlay", MS_NODEV | MS_NOSUID, all)) {
                *strrchr(all, ',') = 0; /* before Linux 5.10 */
                if (mount("overlay", at, "overlay", MS_NODEV | MS_NOSUID, all)) die("cannot mount the layers");
            }
            free(all);
        } else if (!strcmp(option, "--tmpfs") && i + 2 < argc) {
            char path[4096];
            const char *at = argv[++i], *size = argv[++i];
            if (mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV, size)) die("cannot mount a tmpfs");
            for (int k = 0; k < 2; k++) {
                snprintf(path, sizeof path, "%s/%s", at, k ? "work" : "upper");
                if (mkdir(path, 0755)) die(path);
            }
        } else {
            fprintf(stderr, "misstep-init: unknown option %s\n", option);
            return 125;
        }
    }
    if (i + 1 >= argc) return 125;
    execvp(argv[i + 1], argv + i + 1);
    die(argv[i + 1]);
    return 125;
}

static int hold(void) {
    char byte;
    if (unshare(CLONE_NEWUSER)) die("cannot make a user namespace");
    write_all_text(1, "r", "stdout");
    while (read(0, &byte, 1) > 0) {}
    return 0;
}

/* ------------------------------------------------------------------ init */

enum { OP_EXEC = 1, OP_KILL = 2, OP_LIST = 3, OP_END = 4, OP_MARK = 5, OP_HANG_UP = 6 };
enum { STARTED = 1, EXITED = 2, FAILED = 3 };
enum { AGENT = 1, HAS_STDIN = 2, PUMP_OUT = 4, PUMP_ERR = 8, MERGED = 16, TERMINAL = 32, SPARE_MARKED = 64, LEADER = 128 };

struct header { /* host byte order: both ends run on one machine */
    uint32_t op, id, flags, length; /* length: bytes of the body that follows */
    uint32_t uid, gid, ngroups, argc, envc;
    uint32_t size; /* of a terminal: rows << 16 | columns */
    uint64_t fsize; /* bytes of the largest file a process may write; 0: no limit */
    uint64_t most;  /* bytes that are kept of an output */
};

struct reply {
    int32_t kind, value; /* STARTED pid | EXITED wait status | FAILED errno */
    int64_t cpu_us;
    int32_t open; /* outputs that something else still holds: the host's files are written to later on */
    int32_t lost; /* errno of output that could not be written to the host's files since the last answer */
};

struct child {
    uint32_t id;
    pid_t pid; /* also its session; kept after its end: what it left behind is in that session */
    int status; /* where to report; -1 when reported */
    int agent;
};

static struct child *children;
static size_t n_children, room;

static int lost; /* the errno of output that the host's files did not take: told with the next answer */

static void report(int fd, int32_t kind, int32_t value, const struct rusage *use, int open) {
    struct reply r = {kind, value, 0, open, kind == EXITED ? lost : 0};
    if (kind == EXITED) lost = 0;
    if (use)
        r.cpu_us = (use->ru_utime.tv_sec + use->ru_stime.tv_sec) * 1000000LL + use->ru_utime.tv_usec + use->ru_stime.tv_usec;
    ssize_t ignored = write(fd, &r, sizeof r);
    (void)ignored;
}

static void remember(uint32_t id, pid_t pid, int status, int agent) {
    if (n_children == room) {
        room = room ? room * 2 : 16;
        children = realloc(children, room * sizeof *children);
        if (!children) die("realloc");
    }
    children[n_children++] = (struct child){id, pid, status, agent};
}

static int session_alive(pid_t session);
static void forget_mark(uint32_t id);

/* Output goes through pipes, as programs expect of it (a file would be truncated by `echo x > /dev/stderr`), but it is
 * PID 1 that empties them into the host's files: a daemon that holds one blocks nobody and never writes to a reader that
 * has gone. */
struct pump {
    int from, to;
    int tell; /* an eventfd that is told of output; -1: nobody asked */
    pid_t pid;
    uint64_t most;
};

static struct pump *pumps;
static size_t n_pumps, pump_room;

/* Moves what is in the pipe (not what is written meanwhile: at most its capacity); 0 when it has ended. */
static int move(struct pump *p) {
    static char block[1 << 16];
    static const uint64_t one = 1;
    struct stat seen;
    for (int i = 0; i < 32; i++) {
        ssize_t got = read(p->from, block, sizeof block);
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        if (got == 0) return 0;
        if (!fstat(p->to, &seen) && (p->tell < 0 ? (uint64_t)seen.st_size : (uint64_t)seen.st_blocks * 512) < p->most) /* else dropped: the host has seen enough */
            for (ssize_t done = 0, n; done < got; done += n)
                if ((n = write(p->to, block + done, got - done)) <= 0) {
                    lost = errno;
                    break;
                }
        if (p->tell >= 0 && write(p->tell, &one, sizeof one) < 0) {} /* full: its reader has been told */
    }
    return 1;
}

static void end_pump(struct pump *p) {
    close(p->from), close(p->to);
    if (p->tell >= 0) close(p->tell);
}

/* Moves all output, or that of one command; how many outputs of it are still open. */
static int drain(pid_t only) {
    int open = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n_pumps; i++) {
        if ((only && pumps[i].pid != only) || move(&pumps[i])) {
            open += pumps[i].pid == only;
            pumps[kept++] = pumps[i];
        } else {
            end_pump(&pumps[i]);
        }
    }
    n_pumps = kept;
    return open;
}

/* Closes the terminal of a session: with the host's end closed as well, the kernel hangs it up. */
static void close_terminal(pid_t pid) {
    size_t kept = 0;
    for (size_t i = 0; i < n_pumps; i++)
        if (pumps[i].pid == pid && pumps[i].tell >= 0) move(&pumps[i]), end_pump(&pumps[i]);
        else pumps[kept++] = pumps[i];
    n_pumps = kept;
}

static void add_pump(int from, int to, int tell, pid_t pid, uint64_t most) {
    if (n_pumps == pump_room) {
        pump_room = pump_room ? pump_room * 2 : 16;
        pumps = realloc(pumps, pump_room * sizeof *pumps);
        if (!pumps) die("realloc");
    }
    pumps[n_pumps++] = (struct pump){from, to, tell, pid, most};
}

static void reap(void) {
    int status;
    struct rusage use;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &use)) > 0)
        for (size_t i = 0; i < n_children; i++)
            if (children[i].pid == pid && children[i].status >= 0) {
                int open = drain(pid); /* what it wrote is there before it is said that it ended */
                report(children[i].status, EXITED, status, &use, open);
                close(children[i].status);
                children[i].status = -1;
                forget_mark(children[i].id);
            }
    if (n_children > 256) { /* forget finished sessions of which nothing is left, lest a number is used again */
        size_t kept = 0;
        for (size_t i = 0; i < n_children; i++)
            if (children[i].status >= 0 || session_alive(children[i].pid)) children[kept++] = children[i];
        n_children = kept;
    }
}

enum { OTHER = 0, DIRECTORY = 1, PROGRAM = 2 }; /* what failed; the errno is in the lower half */

static void give_up(int status, int what) {
    report(status, FAILED, errno | what << 16, NULL, 0);
    _exit(126);
}

/* A pseudo-terminal of the sandbox's own devpts: `given` is the side of the program; the other side is returned, and
 * sent to the host, who types. */
static int open_terminal(struct header *h, int host, int *given) {
    char name[64];
    int zero = 0, index;
    struct winsize size = {.ws_row = h->size >> 16, .ws_col = h->size & 0xffff};
    int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (master < 0) return -1;
    if (ioctl(master, TIOCSPTLCK, &zero) || ioctl(master, TIOCGPTN, &index)) goto failed;
    snprintf(name, sizeof name, "/dev/pts/%d", index);
    *given = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*given < 0) goto failed;
    if ((h->uid || h->gid) && fchown(*given, h->uid, -1)) {} /* else the program cannot open it anew */
    ioctl(master, TIOCSWINSZ, &size);
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } u = {0};
    char byte = 't';
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = u.space, .msg_controllen = sizeof u.space};
    *CMSG_FIRSTHDR(&m) = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &master, sizeof(int));
    if (sendmsg(host, &m, MSG_NOSIGNAL) == 1) return master;
    close(*given), *given = -1;
failed:
    close(master);
    return -1;
}

/* The child's last steps before execve: everything that may fail reports an errno. */
static void become(struct header *h, uint32_t *groups, char **argv, char **envp, char *cwd, int *fds, int status) {
    sigset_t none;
    sigemptyset(&none);
    for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    umask(022);
    int in = h->flags & (HAS_STDIN | TERMINAL) ? fds[2] : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0) in = fds[0];
    if (h->flags & TERMINAL && ioctl(in, TIOCSCTTY, 0)) give_up(status, OTHER);
    if (dup2(in, 0) < 0 || dup2(fds[0], 1) < 0 || dup2(fds[1], 2) < 0) give_up(status, OTHER);
    if (h->fsize) {
        struct rlimit limit = {h->fsize, h->fsize};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    struct __user_cap_header_struct cap = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, CAP_SYS_PTRACE, 0, 0);
    if (!syscall(SYS_capget, &cap, data)) {
        data[0].effective &= ~(1u << CAP_SYS_PTRACE);
        data[0].permitted &= ~(1u << CAP_SYS_PTRACE);
        data[0].inheritable &= ~(1u << CAP_SYS_PTRACE);
        if (syscall(SYS_capset, &cap, data)) give_up(status, OTHER);
    }
    if (h->uid || h->gid || h->ngroups) {
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if (setgroups(h->ngroups, (gid_t *)groups) && h->ngroups) give_up(status, OTHER);
        if (setresgid(h->gid, h->gid, h->gid)) give_up(status, OTHER);
        if (setresuid(h->uid, h->uid, h->uid)) give_up(status, OTHER);
    }
    if (chdir(cwd)) give_up(status, DIRECTORY);
    execvpe(argv[0], argv, envp);
    give_up(status, PROGRAM);
}

static void run(struct header *h, char *body, int *fds, int nfds) {
    int status = nfds > 0 ? fds[nfds - 1] : -1;
    int wanted = h->flags & (HAS_STDIN | TERMINAL) ? 4 : 3;
    uint32_t *groups = (uint32_t *)body;
    char *at = body + 4 * (size_t)h->ngroups, *end = body + h->length, *cwd = at;
    char **argv = calloc(h->argc + 1, sizeof *argv), **envp = calloc(h->envc + 1, sizeof *envp);
    if (nfds == wanted && argv && envp) {
        uint32_t n = 1 + h->argc + h->envc, i = 0;
        for (; i < n && at < end; i++, at += strlen(at) + 1) {
            if (i == 0) cwd = at;
            else if (i <= h->argc) argv[i - 1] = at;
            else envp[i - 1 - h->argc] = at;
        }
        int ends[2][2] = {{-1, -1}, {-1, -1}}, ok = i == n && h->argc;
        if (ok && h->flags & TERMINAL) /* given: the output's file, what is told of output, the socket of the host */
            ok = (ends[0][0] = open_terminal(h, fds[2], &ends[0][1])) >= 0;
        for (int k = 0; k < 2 && ok; k++) {
            if (!(h->flags & (k ? PUMP_ERR : PUMP_OUT))) continue;
            ok = !pipe2(ends[k], O_CLOEXEC) && !fcntl(ends[k][0], F_SETFL, O_NONBLOCK);
            if (ok && (h->uid || h->gid) && fchown(ends[k][1], h->uid, h->gid)) {} /* else its /dev/stdout is closed to it */
        }
        if (!ok && i != n) errno = EINVAL;
        pid_t pid = ok ? fork() : -1;
        if (pid == 0) {
            int given[3] = {ends[0][1] >= 0 ? ends[0][1] : fds[0], ends[1][1] >= 0 ? ends[1][1] : fds[1], fds[2]};
            if (h->flags & MERGED) given[1] = given[0];
            if (h->flags & TERMINAL) given[1] = given[2] = given[0];
            become(h, groups, argv, envp, cwd, given, status);
        }
        for (int k = 0; k < 2; k++) {
            if (ends[k][1] >= 0) close(ends[k][1]);
            if (pid > 0 && ends[k][0] >= 0)
                add_pump(ends[k][0], fcntl(fds[k], F_DUPFD_CLOEXEC, 3), h->flags & TERMINAL ? fcntl(fds[1], F_DUPFD_CLOEXEC, 3) : -1, pid, h->most);
            else if (ends[k][0] >= 0) close(ends[k][0]);
        }
        if (pid > 0) {
            report(status, STARTED, pid, NULL, 0);
            remember(h->id, pid, fcntl(status, F_DUPFD_CLOEXEC, 3), h->flags & AGENT);
        } else {
            report(status, FAILED, errno, NULL, 0);
        }
    } else if (status >= 0) {
        report(status, FAILED, EINVAL, NULL, 0);
    }
    free(argv), free(envp);
}

struct process {
    pid_t pid, session;
    char state;
    char cookie[24]; /* of the exec that it descends from; "" where unknown */
    int ignores_hangup;
};

static size_t read_file(const char *path, char *into, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;
    if (fd < 0) return 0;
    while (n < size - 1 && (got = read(fd, into + n, size - 1 - n)) > 0) n += got;
    close(fd);
    into[n] = 0;
    return n;
}

static int look(pid_t pid, struct process *p, int deep) {
    static char text[1 << 17];
    char path[64];
    int ppid, group, session;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!read_file(path, text, sizeof text)) return 0;
    char *tail = strrchr(text, ')');
    if (!tail || sscanf(tail + 2, "%c %d %d %d", &p->state, &ppid, &group, &session) != 4) return 0;
    p->pid = pid, p->session = session, p->cookie[0] = 0, p->ignores_hangup = 0;
    if (!deep) return 1;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    size_t n = read_file(path, text, sizeof text);
    for (char *at = text; at < text + n; at += strlen(at) + 1)
        if (!strncmp(at, COOKIE, sizeof COOKIE - 1)) snprintf(p->cookie, sizeof p->cookie, "%.20s", at + sizeof COOKIE - 1);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    read_file(path, text, sizeof text);
    char *ignored = strstr(text, "SigIgn:");
    unsigned long long mask = ignored ? strtoull(ignored + 7, NULL, 16) : 0;
    p->ignores_hangup = mask & 1;
    return 1;
}

/* Calls back for every process but PID 1. */
static size_t each(int deep, int (*visit)(struct process *, void *), void *with) {
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t n = 0;
    if (!proc) return 0;
    while ((entry = readdir(proc))) {
        struct process p;
        pid_t pid = number(entry->d_name);
        if (pid > 1 && look(pid, &p, deep) && p.state != 'Z' && p.state != 'X') n += visit(&p, with);
    }
    closedir(proc);
    return n;
}

static int same_session(struct process *p, void *session) { return p->session == *(pid_t *)session; }
static int session_alive(pid_t session) { return each(0, same_session, &session) > 0; }

/* What lived when the host said so (before a shell's next command): an end of that command spares it. Each shell has
 * its own list. */
struct mark {
    uint32_t id;
    size_t n, room;
    pid_t *pids;
};

static struct mark *marks;
static size_t n_marks;

static struct mark *find_mark(uint32_t id) {
    for (size_t i = 0; i < n_marks; i++)
        if (marks[i].id == id) return &marks[i];
    return NULL;
}

static int mark(struct header *h) {
    struct mark *m = find_mark(h->id);
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    if (!proc) return 0;
    if (!m) {
        marks = realloc(marks, (n_marks + 1) * sizeof *marks);
        if (!marks) die("realloc");
        m = &marks[n_marks++];
        *m = (struct mark){.id = h->id};
    }
    m->n = 0;
    while ((entry = readdir(proc))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
        if (m->n == m->room) {
            m->room = m->room ? m->room * 2 : 16;
            m->pids = realloc(m->pids, m->room * sizeof *m->pids);
            if (!m->pids) die("realloc");
        }
        m->pids[m->n++] = number(entry->d_name);
    }
    closedir(proc);
    return (int)m->n;
}

static void forget_mark(uint32_t id) {
    struct mark *m = find_mark(id);
    if (!m) return;
    free(m->pids);
    *m = marks[--n_marks];
}

struct target {
    struct header *h;
    pid_t session;
    struct mark *marked; /* what is spared */
    char cookie[24];
    int hangup; /* the signal of a session's end; 0: only count */
};

static int kill_one(struct process *p, void *with) {
    struct target *t = with;
    if (p->session != t->session && strcmp(p->cookie, t->cookie)) return 0;
    int leader = p->pid == t->session && t->h->flags & LEADER;
    for (size_t i = 0; !leader && t->marked && i < t->marked->n; i++)
        if (t->marked->pids[i] == p->pid) return 0;
    return !kill(p->pid, SIGKILL);
}

static void pause_ms(long ms) {
    struct timespec wait = {0, ms * 1000000L};
    nanosleep(&wait, NULL);
}

/* Ends everything of one exec: its session, and what left that session but carries its cookie. What is marked may be
 * spared: a shell that goes on, and what earlier commands left running. */
static void kill_exec(struct header *h, int status) {
    struct target t = {h, -1, h->flags & SPARE_MARKED ? find_mark(h->id) : NULL, "", 0};
    int total = 0;
    for (size_t i = 0; i < n_children; i++)
        if (children[i].id == h->id) t.session = children[i].pid;
    snprintf(t.cookie, sizeof t.cookie, "%u", h->id);
    for (int round = 0; round < 200; round++) {
        size_t n = each(1, kill_one, &t);
        total += n;
        drain(0);
        reap();
        if (!n) break;
        if (round) pause_ms(1);
    }
    report(status, EXITED, total, NULL, 0);
}

/* Visits what is attached to the agent: a process in the session of one of its execs that heeds a hangup. */
static int attached(struct process *p, void *with) {
    struct target *t = with;
    if (p->ignores_hangup) return 0;
    for (size_t i = 0; i < n_children; i++)
        if (children[i].agent && children[i].pid == p->session) return t->hangup ? !kill(p->pid, t->hangup) : 1;
    return 0;
}

/* What a harness does when its agent stops: the terminal hangs up, the shells and what is still attached go. What has
 * a session of its own (setsid, a daemon) or ignores the hangup (nohup) stays. */
static void end_session(struct header *h, int status) {
    struct target t = {h, -1, NULL, "", SIGHUP};
    int total = (int)each(1, attached, &t);
    t.hangup = 0;
    for (int round = 0; round < 40 && each(1, attached, &t); round++) { /* 0.2 s to go by themselves */
        pause_ms(5);
        drain(0);
        reap();
    }
    t.hangup = SIGKILL;
    for (int round = 0; round < 200 && each(1, attached, &t); round++) {
        pause_ms(1);
        reap();
    }
    for (size_t i = 0; i < n_children; i++) {
        if (children[i].agent) close_terminal(children[i].pid);
        children[i].agent = 0;
    }
    report(status, EXITED, total, NULL, 0);
}

static int list_one(struct process *p, void *with) {
    static char words[4096], path[64];
    FILE *out = with;
    snprintf(path, sizeof path, "/proc/%d/cmdline", p->pid);
    size_t n = read_file(path, words, sizeof words);
    for (size_t i = 0; i + 1 < n; i++)
        if (!words[i] || words[i] == '\n') words[i] = ' ';
    fprintf(out, "%d %d %s %s\n", p->pid, p->session, p->cookie[0] ? p->cookie : "-", n ? words : "-");
    return 1;
}

static void list(int *fds, int nfds, int status) {
    FILE *out = nfds > 1 ? fdopen(dup(fds[0]), "w") : NULL;
    size_t n = out ? each(1, list_one, out) : 0;
    if (out) fclose(out);
    report(status, EXITED, (int)n, NULL, 0);
}

static void vanish(void) {
    kill(-1, SIGKILL);
    _exit(0); /* the last of PID 1 takes the namespace with it */
}

static void serve(int control) {
    struct header h;
    int fds[8], nfds = 0;
    union {
        char space[CMSG_SPACE(sizeof fds)];
        struct cmsghdr align;
    } u;
    struct iovec part = {&h, sizeof h};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = u.space, .msg_controllen = sizeof u.space};
    ssize_t got = recvmsg(control, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    if (got < 0 && errno == EINTR) return;
    if (got != (ssize_t)sizeof h) vanish();
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            int n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(fds, CMSG_DATA(c), n * sizeof(int));
            nfds = n;
        }
    char *body = malloc(h.length + 1);
    if (!body) vanish();
    for (uint32_t n = 0; n < h.length; n += got) {
        got = recv(control, body + n, h.length - n, 0);
        if (got <= 0) vanish();
    }
    body[h.length] = 0;
    int status = nfds ? fds[nfds - 1] : -1;
    switch (h.op) {
    case OP_EXEC: run(&h, body, fds, nfds); break;
    case OP_KILL: kill_exec(&h, status); break;
    case OP_LIST: list(fds, nfds, status); break;
    case OP_END: end_session(&h, status); break;
    case OP_MARK: /* of shell 0: what has been written so far is in the host's files, and no more */
        drain(0);
        report(status, EXITED, h.id ? mark(&h) : 0, NULL, 0);
        break;
    case OP_HANG_UP:
        for (size_t i = 0; i < n_children; i++)
            if (children[i].id == h.id) close_terminal(children[i].pid);
        report(status, EXITED, 0, NULL, 0);
        break;
    default: errno = ENOSYS; report(status, FAILED, errno, NULL, 0);
    }
    for (int i = 0; i < nfds; i++) close(fds[i]);
    free(body);
}

static int init(void) {
    /* By a variable, not by arguments: `ps` inside then shows the same in every sandbox. */
    const char *given = getenv("MISSTEP_INIT");
    int control, ready, host, fixed;
    if (!given || sscanf(given, "%d %d %d %d", &control, &ready, &host, &fixed) != 4) return 125;
    if (fixed) personality(ADDR_NO_RANDOMIZE); /* addresses that a program prints do not vary */
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) die("signalfd");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* with bubblewrap's own process; the host's is watched below */
    struct __user_cap_header_struct cap = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {0};
    syscall(SYS_capget, &cap, data);
    for (int c = 0; c < 64; c++)
        if (!(data[c / 32].permitted & (1u << (c % 32)))) prctl(PR_CAPBSET_DROP, c);
    prctl(PR_SET_NAME, "misstep-init");
    for (int fd = 3; fd < 1024; fd++) /* bubblewrap's own and ours: none reaches a command */
        if (fd == control || fd == host || fd == ready || fd == signals) fcntl(fd, F_SETFD, FD_CLOEXEC);
        else close(fd);
    if (chdir("/")) die("chdir");
    if (write(ready, "r", 1) != 1) vanish();
    close(ready);
    struct pollfd *wait = NULL;
    size_t waiting = 0;
    for (;;) {
        if (waiting < 3 + n_pumps) {
            waiting = 16 + 2 * n_pumps;
            wait = realloc(wait, waiting * sizeof *wait);
            if (!wait) die("realloc");
        }
        wait[0] = (struct pollfd){control, POLLIN, 0};
        wait[1] = (struct pollfd){signals, POLLIN, 0};
        wait[2] = (struct pollfd){host, POLLIN, 0};
        for (size_t i = 0; i < n_pumps; i++) wait[3 + i] = (struct pollfd){pumps[i].from, POLLIN, 0};
        size_t polled = n_pumps;
        if (poll(wait, 3 + polled, -1) < 0) {
            if (errno != EINTR) vanish();
            continue;
        }
        if (wait[2].revents) vanish(); /* the host's process is gone */
        int output = 0;
        for (size_t i = 0; i < polled; i++) output |= wait[3 + i].revents;
        if (output) drain(0);
        if (wait[1].revents) {
            struct signalfd_siginfo info;
            while (read(signals, &info, sizeof info) == sizeof info) {}
            reap();
        }
        if (wait[0].revents) serve(control);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "launch")) return launch(argc - 2, argv + 2);
    if (argc > 1 && !strcmp(argv[1], "hold")) return hold();
    if (argc == 1 && getenv("MISSTEP_INIT")) return init();
    fprintf(stderr, "misstep-init: launch | hold\n");
    return 125;
}
