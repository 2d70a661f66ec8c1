// SPDX-License-Identifier: BSD-3-Clause
// Announcement: registers this farcached in etcd (--advertise with --discover etcd://), and keeps the list of the cluster that
// clients get by the registrations of all.
//
// Owner: main, in the final process: it has two threads. Threads: main's calls all; the source's calls take().
// A1  The version of the list is the revision of etcd's last change of a registration. So the farcached that have seen the same
//     changes have the same version. It never falls in one process: ClusterView.
// A2  While etcd is away, or lists no farcached, the last list stays.
// A3  A list by the settings (cluster_members) wins; the registration stays.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "conf/settings.h"
#include "daemon/discovery/etcd_registration.h"
#include "daemon/discovery/etcd_source.h"
#include "daemon/remote/cluster_view.h"
#include "process/log.h"

namespace farcached::daemon {

class Announcement {
  public:
    // Do the settings ask for one?
    static bool wanted(const conf::Settings& settings);
    // Does the list come from it (A3)?
    static bool gives_list(const conf::Settings& settings) { return wanted(settings) && settings.cluster.members.empty(); }
    // own_port: of --advertise without a port. view outlives this. Throws std::bad_alloc.
    Announcement(const conf::Settings& settings, const EtcdAccess& access, uint16_t own_port, ClusterView& view);
    ~Announcement();
    Announcement(const Announcement&) = delete;
    Announcement& operator=(const Announcement&) = delete;

    void start();  // throws std::system_error
    // Ends the registration, which others learn at once.
    void stop();
    // A3. After true the view has the list of etcd, if there is one yet.
    void use_list(bool of_etcd);

  private:
    void take(const std::vector<FoundNode>& found, int64_t last_change);

    const EtcdAccess access_;
    const std::string origin_;
    ClusterView& view_;
    EtcdRegistration registration_;
    process::LimitedLines lines_;                // the source's thread's
    std::mutex lock_;
    bool uses_etcd_;                             // under lock_, as the next two
    std::vector<ClusterView::Member> members_;
    uint64_t version_ = 0;
    std::unique_ptr<EtcdSource> source_;         // its thread ends first
};

}  // namespace farcached::daemon
