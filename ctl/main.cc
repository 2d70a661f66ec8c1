// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/run.h"

int main(int argc, char** argv) { return farcached::ctl::run(argc, argv); }
