// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/run.h"

int main(int argc, char** argv) { return farcached::node::run(argc, argv); }
