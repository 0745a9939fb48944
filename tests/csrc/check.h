// Checks for the C++ tests. A failed check prints file:line, the expression and the values, and the test goes on;
// end main() with `return monolith::test::finish();`, which is non-zero when any check failed.
#pragma once

#include <atomic>
#include <concepts>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <type_traits>

namespace monolith::test {

inline std::atomic<int> num_failures{0};

template <typename T>
std::string show(const T& value) {
  if constexpr (requires(std::ostream& out) { out << +value; }) {
    std::ostringstream out;
    out << +value;  // The plus shows small integers as numbers, not as characters.
    return out.str();
  } else if constexpr (requires(std::ostream& out) { out << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else {
    return "(value without <<)";
  }
}

inline void fail(const char* file, int line, const std::string& message) {
  num_failures.fetch_add(1);
  std::cerr << file << ":" << line << ": " << message << std::endl;
}

// Compares integers by value, so a test may write CHECK_EQ(sizes.size(), 3).
template <typename A, typename B>
bool equal(const A& a, const B& b) {
  if constexpr (std::integral<A> && std::integral<B> && !std::same_as<A, bool> && !std::same_as<B, bool>) {
    if constexpr (std::is_signed_v<A> != std::is_signed_v<B>) {
      using Wide = std::make_unsigned_t<std::common_type_t<A, B>>;
      if constexpr (std::is_signed_v<A>) {
        return a >= 0 && static_cast<Wide>(a) == static_cast<Wide>(b);
      } else {
        return b >= 0 && static_cast<Wide>(a) == static_cast<Wide>(b);
      }
    } else {
      return a == b;
    }
  } else {
    return a == b;
  }
}

inline int finish() {
  const int failures = num_failures.load();
  if (failures != 0) std::cerr << failures << " check(s) failed" << std::endl;
  return failures == 0 ? 0 : 1;
}

}  // namespace monolith::test

#define CHECK(...)                                                                                      \
  do {                                                                                                  \
    if (!(__VA_ARGS__)) ::monolith::test::fail(__FILE__, __LINE__, "CHECK(" #__VA_ARGS__ ") is false"); \
  } while (false)

#define CHECK_EQ(a, b)                                                                                     \
  do {                                                                                                     \
    const auto check_a = (a);                                                                              \
    const auto check_b = (b);                                                                              \
    if (!::monolith::test::equal(check_a, check_b)) {                                                      \
      ::monolith::test::fail(__FILE__, __LINE__,                                                           \
                             std::string("CHECK_EQ(" #a ", " #b "): ") + ::monolith::test::show(check_a) + \
                                 " != " + ::monolith::test::show(check_b));                                \
    }                                                                                                      \
  } while (false)

// |a - b| <= tolerance
#define CHECK_NEAR(a, b, tolerance)                                                                           \
  do {                                                                                                        \
    const double check_a = static_cast<double>(a);                                                            \
    const double check_b = static_cast<double>(b);                                                            \
    const double check_difference = check_a > check_b ? check_a - check_b : check_b - check_a;                \
    if (!(check_difference <= static_cast<double>(tolerance))) {                                              \
      ::monolith::test::fail(__FILE__, __LINE__,                                                              \
                             std::string("CHECK_NEAR(" #a ", " #b ", " #tolerance "): ") +                    \
                                 ::monolith::test::show(check_a) + " vs " + ::monolith::test::show(check_b)); \
    }                                                                                                         \
  } while (false)

// The expression throws a std::exception whose text contains `text`.
#define CHECK_THROWS(expression, text)                                                                            \
  do {                                                                                                            \
    std::string check_message = "nothing was thrown";                                                             \
    bool check_thrown = false;                                                                                    \
    try {                                                                                                         \
      (void)(expression);                                                                                         \
    } catch (const std::exception& check_error) {                                                                 \
      check_thrown = true;                                                                                        \
      check_message = check_error.what();                                                                         \
    }                                                                                                             \
    if (!check_thrown || check_message.find(text) == std::string::npos) {                                         \
      ::monolith::test::fail(__FILE__, __LINE__,                                                                  \
                             std::string("CHECK_THROWS(" #expression ", \"") + (text) + "\"): " + check_message); \
    }                                                                                                             \
  } while (false)
