# SPDX-License-Identifier: BSD-3-Clause
# Folds the text of a man page into lines of 80 bytes at most, as `mandoc -Tlint` wants them. Requests stay as they are, and so does
# what is not filled.
/^\.nf/ { unfilled = 1 }
/^\.fi/ { unfilled = 0 }
unfilled || /^[.' ]/ || length($0) <= 80 { print; next }
{
    count = split($0, words, " ")
    line = words[1]
    for (i = 2; i <= count; i++) {
        if (length(line) + 1 + length(words[i]) <= 80) {
            line = line " " words[i]
            continue
        }
        print line
        # A line that begins so would be a request.
        line = (words[i] ~ /^[.']/ ? "\\&" : "") words[i]
    }
    print line
}
