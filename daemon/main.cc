// SPDX-License-Identifier: BSD-3-Clause
// farcached's main.
int main() { return 0; }
