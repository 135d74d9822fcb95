// Lends workers to calls, and replaces those that have ended.
#include "workers/pool.h"

#include <algorithm>
#include <utility>

#include "core/platform.h"

namespace opgraft::workers {
namespace {

std::atomic<Pool*> the_pool = nullptr;
thread_local std::int64_t making = 0;

/// The parent's workers belong to the parent. Its pool is left as it is, since another thread may
/// have been changing it.
void StartAnewInChild() {
  CloseAllInChild();
  the_pool = new Pool;
}

}  // namespace

std::atomic<std::uint64_t> Pool::next_number_ = 1;

Pool& Pool::OfThisProcess() {
  static const bool is_ready = [] {
    the_pool = new Pool;
    platform::OnFork(nullptr, nullptr, StartAnewInChild);
    return true;
  }();
  static_cast<void>(is_ready);
  return *the_pool;
}

void Pool::Lease::GiveBack() {
  if (process_ != nullptr) pool_->GiveBack(group_, std::move(process_));
}

std::unique_ptr<Process> Pool::FindFree(Group* group, std::uint64_t operator_id,
                                        std::uint64_t only) {
  const auto take = [&](auto found) {
    std::unique_ptr<Process> process;
    if (found != group->free.end()) {
      process = std::move(*found);
      group->free.erase(found);
    }
    return process;
  };
  if (only != 0) {
    return take(
        std::ranges::find_if(group->free, [&](const auto& one) { return one->serial() == only; }));
  }
  const auto has_it = std::ranges::find_if(
      group->free, [&](const auto& one) { return one->operators.contains(operator_id); });
  return take(has_it != group->free.end() ? has_it : group->free.begin());
}

Status Pool::Take(const Options& options, std::uint64_t operator_id, std::uint64_t only,
                  const Patience& patience, Lease* lease) {
  const std::string key = options.PoolKey();
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(mutex_);
  Group& group = groups_[key];
  while (true) {
    // Of all that are free, so that none that has ended stays as a zombie until a call takes it.
    std::erase_if(group.free, [&group](const std::unique_ptr<Process>& one) {
      if (one->CheckAlive()) return false;
      group.serials.erase(one->serial());
      group.to_drop.erase(one->serial());
      ++group.ended;
      return true;
    });
    if (only != 0 && !group.serials.contains(only)) only = 0;
    lease->process_ = FindFree(&group, operator_id, only);
    if (lease->process_ != nullptr) break;
    const bool may_start =
        only == 0 && group.serials.size() < static_cast<std::size_t>(options.workers);
    if (may_start) break;
    if (patience.is_cancelled != nullptr && patience.is_cancelled->load()) {
      return Status::PyOp("call was cancelled while it waited for a free worker process");
    }
    freed_.wait_for(lock, std::chrono::milliseconds(20));
    if (patience.interrupted) {
      lock.unlock();
      if (Status status = patience.interrupted(); !status.ok()) return status;
      lock.lock();
    }
  }
  statistics_.queued += std::chrono::duration<double>(Clock::now() - begin).count();
  lease->pool_ = this;
  lease->group_ = key;
  if (lease->process_ == nullptr) {
    const std::uint64_t serial = NextNumber();
    group.serials.insert(serial);
    ++statistics_.started;
    if (group.ended > 0) {
      --group.ended;
      ++statistics_.restarts;
    }
    lock.unlock();
    lease->process_ = std::make_unique<Process>(serial);
    Status status = lease->process_->Start(options);
    if (!status.ok()) lease->GiveBack();
    return status;
  }
  if (const auto found = group.to_drop.find(lease->process_->serial());
      found != group.to_drop.end()) {
    for (const std::uint64_t one : found->second) {
      if (lease->process_->operators.erase(one) > 0) lease->process_->dropped.push_back(one);
    }
    group.to_drop.erase(found);
  }
  return Status();
}

bool Pool::TakeFreeWith(const Options& options, std::uint64_t operator_id, Lease* lease) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[options.PoolKey()];
  const auto found = std::ranges::find_if(
      group.free, [&](const auto& one) { return one->operators.contains(operator_id); });
  if (found == group.free.end()) return false;
  lease->pool_ = this;
  lease->group_ = options.PoolKey();
  lease->process_ = std::move(*found);
  group.free.erase(found);
  return true;
}

void Pool::GiveBack(const std::string& key, std::unique_ptr<Process> process) {
  {
    const std::lock_guard lock(mutex_);
    Group& group = groups_[key];
    if (process->is_usable()) {
      group.free.push_front(std::move(process));
    } else {
      group.serials.erase(process->serial());
      group.to_drop.erase(process->serial());
      ++group.ended;
    }
  }
  freed_.notify_all();
}

void Pool::Drop(const Options& options, std::uint64_t operator_id) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[options.PoolKey()];
  for (const std::uint64_t serial : group.serials) group.to_drop[serial].insert(operator_id);
}

void Pool::Enter(ActiveCall* call) {
  const std::lock_guard lock(mutex_);
  active_.insert(call);
}

void Pool::Leave(ActiveCall* call) {
  const std::lock_guard lock(mutex_);
  active_.erase(call);
}

void Pool::Cancel(std::int64_t session) {
  {
    const std::lock_guard lock(mutex_);
    for (ActiveCall* call : active_) {
      if (session == 0 || call->session == session) call->is_cancelled = true;
    }
  }
  freed_.notify_all();
}

void Pool::CountCall(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++statistics_.calls;
  statistics_.bytes += bytes;
}

Statistics Pool::Read() {
  const std::lock_guard lock(mutex_);
  Statistics read = statistics_;
  for (const auto& [key, group] : groups_) read.workers += group.serials.size();
  return read;
}

std::int64_t SessionInMaking() { return making; }

std::int64_t ExchangeSession(std::int64_t number) { return std::exchange(making, number); }

void CancelCalls(std::int64_t session) { Pool::OfThisProcess().Cancel(session); }

Statistics ReadStatistics() { return Pool::OfThisProcess().Read(); }

}  // namespace opgraft::workers
