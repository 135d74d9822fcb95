// Calls the kernel directly: its own headers may be older than it is.
#include "workers/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace opgraft::workers {
namespace {

// Of linux/landlock.h, in the form of its third version, which is the first that knows truncation.
struct Ruleset {
  std::uint64_t handled;
};
struct [[gnu::packed]] PathRule {
  std::uint64_t allowed;
  std::int32_t folder;
};
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr std::uint64_t kWriteFile = 1U << 1U;
constexpr std::uint64_t kTruncate = 1U << 14U;
/// All that changes files and folders: writing, removing, making, moving, truncating.
constexpr std::uint64_t kAllWrites = kWriteFile | 0x7ff0U;
constexpr int kOldestLandlock = 3;

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

/// The network, other processes, what Landlock does not watch, and what only a system's own
/// programs need. socketpair stays: it reaches no one else.
constexpr long kRefused[] = {
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_tkill,
    SYS_pidfd_send_signal,
    438 /* pidfd_getfd */,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_setpgid,
    SYS_setsid,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    442 /* mount_setattr */,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_userfaultfd,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_semget,
    SYS_semop,
    SYS_semctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_fchmod,
    SYS_fchmodat,
    452 /* fchmodat2 */,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    463 /* setxattrat */,
    466 /* removexattrat */,
    SYS_setpriority,
    SYS_sched_setscheduler,
    SYS_sched_setattr,
#if defined(__x86_64__)
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
};

constexpr std::uint32_t kClonesNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                            CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                            CLONE_NEWCGROUP;

sock_filter Load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
sock_filter Return(std::uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
sock_filter IfEqual(std::uint32_t value, std::uint8_t skip_then, std::uint8_t skip_else) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip_then, skip_else);
}

constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr std::size_t kNumber = offsetof(seccomp_data, nr);
/// The lower half of an argument; both architectures are little-endian.
constexpr std::size_t kArgument = offsetof(seccomp_data, args);

/// Appends: a call with this number goes on only if its first argument is `value` or `other`.
void AllowOnly(long number, std::uint32_t value, std::uint32_t other,
               std::vector<sock_filter>* filter) {
  filter->push_back(IfEqual(static_cast<std::uint32_t>(number), 0, 5));
  filter->push_back(Load(kArgument));
  filter->push_back(IfEqual(value, 2, 0));
  filter->push_back(IfEqual(other, 1, 0));
  filter->push_back(Return(kRefuse));
  filter->push_back(Return(SECCOMP_RET_ALLOW));
}

/// Appends: a call with this number is refused if its second argument is one of `values`.
void RefuseSecond(long number, std::initializer_list<std::uint32_t> values,
                  std::vector<sock_filter>* filter) {
  auto left = static_cast<std::uint8_t>(values.size());
  filter->push_back(
      IfEqual(static_cast<std::uint32_t>(number), 0, static_cast<std::uint8_t>(left + 3)));
  filter->push_back(Load(kArgument + sizeof(std::uint64_t)));
  for (const std::uint32_t value : values) filter->push_back(IfEqual(value, left--, 0));
  filter->push_back(Return(SECCOMP_RET_ALLOW));
  filter->push_back(Return(kRefuse));
}

std::vector<sock_filter> MakeFilter() {
  const auto self = static_cast<std::uint32_t>(getpid());
  std::vector<sock_filter> filter = {Load(offsetof(seccomp_data, arch)),
                                     IfEqual(kArchitecture, 1, 0), Return(kRefuse), Load(kNumber)};
#if defined(__x86_64__)
  constexpr std::uint32_t kX32 = 0x40000000;
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
  filter.push_back(Return(kRefuse));
#endif
  for (const long number : kRefused) {
    filter.push_back(IfEqual(static_cast<std::uint32_t>(number), 0, 1));
    filter.push_back(Return(kRefuse));
  }
  // glibc falls back to clone, whose flags a filter can see.
  filter.push_back(IfEqual(SYS_clone3, 0, 1));
  filter.push_back(Return(SECCOMP_RET_ERRNO | ENOSYS));
  filter.push_back(IfEqual(SYS_clone, 0, 4));
  filter.push_back(Load(kArgument));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kClonesNamespaces, 0, 1));
  filter.push_back(Return(kRefuse));
  filter.push_back(Return(SECCOMP_RET_ALLOW));
  // Signals to itself and its own group, which it cannot leave; limits of its own.
  AllowOnly(SYS_kill, self, 0, &filter);
  AllowOnly(SYS_tgkill, self, self, &filter);
  AllowOnly(SYS_prlimit64, self, 0, &filter);
  // The kernel signals the owner of a descriptor, and runs what is typed into a terminal.
  RefuseSecond(SYS_fcntl, {F_SETOWN, 10 /* F_SETSIG */, 15 /* F_SETOWN_EX */}, &filter);
  RefuseSecond(SYS_ioctl, {FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX, TIOCSPGRP}, &filter);
  filter.push_back(Return(SECCOMP_RET_ALLOW));
  return filter;
}

std::string Failed(const std::string& what) { return what + ": " + std::strerror(errno); }

std::string AddRule(int ruleset, const std::string& path, std::uint64_t allowed) {
  const int file = open(path.c_str(), O_PATH | O_CLOEXEC);
  struct stat found = {};
  if (file < 0 || fstat(file, &found) != 0) {
    if (file >= 0) close(file);
    return Failed("the writable path '" + path + "'");
  }
  if (!S_ISDIR(found.st_mode)) allowed &= kWriteFile | kTruncate;
  const PathRule rule = {allowed, file};
  const long added = syscall(kAddRule, ruleset, /*path beneath*/ 1, &rule, 0);
  const std::string problem = added == 0 ? "" : Failed("Landlock refuses '" + path + "'");
  close(file);
  return problem;
}

std::string RestrictFiles(std::string_view writable) {
  const long version = syscall(kCreateRuleset, nullptr, 0, /*version*/ 1);
  if (version < kOldestLandlock) {
    return "sandbox=True needs a Linux kernel with Landlock of version 3 (Linux 6.2), " +
           (version < 0 ? std::string("which this kernel does not have")
                        : "this kernel has version " + std::to_string(version)) +
           ". Fix: a newer kernel with Landlock among its security modules, or no sandbox";
  }
  const Ruleset handled = {kAllWrites};
  const auto ruleset = static_cast<int>(syscall(kCreateRuleset, &handled, sizeof(handled), 0));
  if (ruleset < 0) return Failed("Landlock");
  std::string problem = AddRule(ruleset, "/dev/null", kWriteFile);
  while (!writable.empty() && problem.empty()) {
    const std::size_t end = std::min(writable.find(':'), writable.size());
    if (end > 0) problem = AddRule(ruleset, std::string(writable.substr(0, end)), kAllWrites);
    writable.remove_prefix(std::min(end + 1, writable.size()));
  }
  if (problem.empty() && syscall(kRestrictSelf, ruleset, 0) != 0) problem = Failed("Landlock");
  close(ruleset);
  return problem;
}

std::string Confine(std::string_view writable) {
  if (kArchitecture == 0) return "sandbox=True is for x86-64 and ARM64";
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Failed("no_new_privs");
  if (std::string problem = RestrictFiles(writable); !problem.empty()) return problem;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) return Failed("capset");
  const std::vector<sock_filter> filter = MakeFilter();
  const sock_fprog program = {static_cast<unsigned short>(filter.size()),
                              const_cast<sock_filter*>(filter.data())};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    return Failed("sandbox=True needs a kernel with seccomp");
  }
  return "";
}

}  // namespace
}  // namespace opgraft::workers

const char* opgraft_confine(const char* writable) {
  static auto* const problem = new std::string;
  *problem = opgraft::workers::Confine(writable != nullptr ? writable : "");
  return problem->empty() ? nullptr : problem->c_str();
}
