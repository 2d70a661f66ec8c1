# SPDX-License-Identifier: BSD-3-Clause
# contrib/: the commands, and what a system that runs the daemons as services needs.
EXTRA_DIST += \
	contrib/check \
	contrib/class-sizes \
	contrib/common.sh \
	contrib/image \
	contrib/try \
	contrib/vm

# For monitoring and for Kubernetes, to copy and to adapt.
grafanadir = $(examplesdir)/grafana
dist_grafana_DATA = contrib/grafana/farcached.json
prometheusdir = $(examplesdir)/prometheus
dist_prometheus_DATA = contrib/prometheus/farcached.rules.yml contrib/prometheus/prometheus.yml
kubernetesdir = $(examplesdir)/kubernetes
dist_kubernetes_DATA = contrib/kubernetes/farcached.yaml contrib/kubernetes/fleet.yaml

# Units are made here, because they name where the programs are; what all have in common is written once.
systemd_units = \
	contrib/systemd/farcached.service \
	contrib/systemd/farcached@.service \
	contrib/systemd/farnode.service \
	contrib/systemd/farnode@.service
systemd_parts = $(top_srcdir)/contrib/systemd/service.in $(top_srcdir)/contrib/systemd/hardening.in
EXTRA_DIST += \
	contrib/systemd/farcached.service.in \
	contrib/systemd/farcached@.service.in \
	contrib/systemd/farcached.socket \
	contrib/systemd/farnode.service.in \
	contrib/systemd/farnode@.service.in \
	contrib/systemd/hardening.in \
	contrib/systemd/io_uring.conf \
	contrib/systemd/service.in \
	contrib/systemd/set-limits \
	contrib/systemd/sysusers.conf \
	contrib/systemd/tmpfiles.conf \
	contrib/systemd/verbs.conf
CLEANFILES += $(systemd_units)

$(systemd_units): $(systemd_parts) Makefile
	$(AM_V_GEN)$(MKDIR_P) contrib/systemd && \
	$(SED) -e '/^@SERVICE@$$/{' -e 'r $(top_srcdir)/contrib/systemd/service.in' -e 'd' -e '}' \
		-e '/^@HARDENING@$$/{' -e 'r $(top_srcdir)/contrib/systemd/hardening.in' -e 'd' -e '}' \
		-e 's|@[b]indir@|$(bindir)|g' -e 's|@[p]kglibexecdir@|$(pkglibexecdir)|' $(top_srcdir)/$@.in >$@.new && \
	mv $@.new $@
contrib/systemd/farcached.service: $(top_srcdir)/contrib/systemd/farcached.service.in
contrib/systemd/farcached@.service: $(top_srcdir)/contrib/systemd/farcached@.service.in
contrib/systemd/farnode.service: $(top_srcdir)/contrib/systemd/farnode.service.in
contrib/systemd/farnode@.service: $(top_srcdir)/contrib/systemd/farnode@.service.in

if SYSTEMD
all-local: $(systemd_units)

systemdsharedir = $(pkgdatadir)/systemd
systemunit_DATA = $(systemd_units) contrib/systemd/farcached.socket
systemdshare_DATA = contrib/systemd/io_uring.conf contrib/systemd/verbs.conf
pkglibexec_SCRIPTS = contrib/systemd/set-limits

# Their names are those of what they are for, in the folder of all such files.
install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(sysusersdir)' '$(DESTDIR)$(tmpfilesdir)'
	$(INSTALL_DATA) $(top_srcdir)/contrib/systemd/sysusers.conf '$(DESTDIR)$(sysusersdir)/farcached.conf'
	$(INSTALL_DATA) $(top_srcdir)/contrib/systemd/tmpfiles.conf '$(DESTDIR)$(tmpfilesdir)/farcached.conf'

uninstall-local:
	rm -f '$(DESTDIR)$(sysusersdir)/farcached.conf' '$(DESTDIR)$(tmpfilesdir)/farcached.conf'
endif
