// SPDX-License-Identifier: BSD-3-Clause
// The main of a fuzz target in a build without libFuzzer. It feeds every corpus file, whole and cut at every early
// byte. A bounded number of mutated inputs from a seeded generator follows. It takes libFuzzer's spelling of its few
// options, so that tests and `make fuzz` call either build the same way:
//
//     target [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-max_len=N] [corpus file or directory]...
//
// A crash names the input: its bytes are in crash-<pid> in the current directory.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

struct Options {
    uint64_t runs = 10'000;
    uint64_t seed = 1;
    uint64_t seconds = 0;  // 0: no bound
    size_t max_len = 4096;
    std::vector<std::filesystem::path> corpora;
};

// The current input, for the crash handler.
const uint8_t* current = nullptr;
size_t current_size = 0;

void on_crash(int signal_number) {
    char name[32] = "crash-";
    char* at = name + 6;
    for (unsigned pid = unsigned(getpid()); pid != 0; pid /= 10) *at++ = char('0' + pid % 10);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0) {
        ssize_t written = write(fd, current, current_size);
        close(fd);
        if (written == ssize_t(current_size)) {
            written = write(2, "the input is in ", 16);
            written = write(2, name, strlen(name));
            written = write(2, "\n", 1);
        }
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

// A copy of exactly that size, so that a sanitizer sees a read past the end.
void feed(const Input& input, size_t size) {
    Input exact(input.begin(), input.begin() + std::ptrdiff_t(size));
    exact.shrink_to_fit();
    current = exact.data();
    current_size = exact.size();
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

bool number_option(std::string_view arg, std::string_view name, uint64_t& value) {
    if (!arg.starts_with(name)) return false;
    value = std::strtoull(std::string(arg.substr(name.size())).c_str(), nullptr, 10);
    return true;
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        std::string_view arg = argv[i];
        uint64_t max_len = options.max_len;
        if (number_option(arg, "-runs=", options.runs)) continue;
        if (number_option(arg, "-seed=", options.seed)) continue;
        if (number_option(arg, "-max_total_time=", options.seconds)) continue;
        if (number_option(arg, "-max_len=", max_len)) {
            options.max_len = std::max<size_t>(1, max_len);
            continue;
        }
        if (!arg.starts_with("-")) options.corpora.emplace_back(arg);
    }
    return options;
}

std::vector<Input> load(const std::vector<std::filesystem::path>& corpora) {
    std::vector<std::filesystem::path> files;
    for (const auto& path : corpora) {
        if (!std::filesystem::is_directory(path)) {
            files.push_back(path);
            continue;
        }
        for (const auto& entry : std::filesystem::directory_iterator(path)) {
            if (entry.is_regular_file()) files.push_back(entry.path());
        }
    }
    std::sort(files.begin(), files.end());  // the same order on every machine
    std::vector<Input> inputs;
    for (const auto& path : files) {
        std::ifstream file(path, std::ios::binary);
        inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return inputs;
}

class Mutator {
  public:
    Mutator(uint64_t seed, size_t max_len) : random_(seed), max_len_(max_len) {}

    Input next(const std::vector<Input>& corpus) {
        Input input = corpus.empty() ? Input() : corpus[below(corpus.size())];
        size_t edits = 1 + below(8);
        for (size_t i = 0; i < edits; i++) edit(input, corpus);
        if (input.size() > max_len_) input.resize(max_len_);
        return input;
    }

  private:
    size_t below(size_t n) { return size_t(random_() % n); }

    // Bytes that parsers treat specially, more often than at random.
    uint8_t interesting() {
        static constexpr uint8_t bytes[] = {0,   ' ', '\r', '\n', '0',  '9',  '-',
                                            'q', 'b', 0x7f, 0x80, 0x81, 0xff, 250};
        return below(2) == 0 ? bytes[below(sizeof bytes)] : uint8_t(random_());
    }

    void edit(Input& input, const std::vector<Input>& corpus) {
        size_t at = below(input.size() + 1);
        auto where = input.begin() + std::ptrdiff_t(at);
        switch (below(6)) {
            case 0:  // insert a byte
                input.insert(where, interesting());
                break;
            case 1:  // replace a byte
                if (at < input.size()) *where = interesting();
                break;
            case 2:  // flip a bit
                if (at < input.size()) *where = uint8_t(*where ^ (1u << below(8)));
                break;
            case 3:  // cut a piece out
                input.erase(where, where + std::ptrdiff_t(below(input.size() - at + 1)));
                break;
            case 4:  // repeat a byte
                input.insert(where, below(300), interesting());
                break;
            default:  // splice in another input
                if (!corpus.empty()) {
                    const Input& other = corpus[below(corpus.size())];
                    size_t from = below(other.size() + 1);
                    input.insert(where, other.begin() + std::ptrdiff_t(from), other.end());
                }
        }
    }

    std::mt19937_64 random_;
    size_t max_len_;
};

}  // namespace

int main(int argc, char** argv) {
    Options options = parse(argc, argv);
    for (int n : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(n, on_crash);

    std::vector<Input> corpus = load(options.corpora);
    uint64_t fed = 0;
    for (const Input& input : corpus) {
        constexpr size_t cuts_max = 512;  // quadratic beyond; long seeds are long in their values
        for (size_t cut = 0; cut < std::min(input.size(), cuts_max); cut++, fed++) feed(input, cut);
        feed(input, input.size());
        fed++;
    }
    Mutator mutator(options.seed, options.max_len);
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
    for (uint64_t i = 0; i < options.runs; i++, fed++) {
        constexpr uint64_t between_looks = 256;  // inputs take microseconds
        if (options.seconds != 0 && i % between_looks == 0 && std::chrono::steady_clock::now() >= end) {
            break;
        }
        Input input = mutator.next(corpus);
        feed(input, input.size());
    }
    std::printf("%zu corpus files, %llu inputs\n", corpus.size(), static_cast<unsigned long long>(fed));
    return 0;
}
