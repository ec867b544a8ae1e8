// Access to the lines of a matrix: its rows, or its columns as the rows of the transposed matrix.
//
// A solver holds a `Lines*`, which hides whether the entries are dense or sparse, float or double, contiguous or
// strided, in memory or elsewhere. There is one virtual call for each line, not for each entry: a call costs about two
// nanoseconds, and a line holds tens to thousands of entries.
//
// Every operation that reads entries counts them in the ledger, so that no caller can forget to.
#pragma once

#include <algorithm>
#include <cstdint>

#include "wide.hpp"

namespace maxmargin {

// The number of entries read. `entries_read` counts each stored entry each time it is read; `dense_count` is the number that the same
// reads would count if all entries, zeros too, were stored. If entries have prices, `paid` is what they have cost so far.
struct Reads {
    int64_t entries_read = 0;
    int64_t dense_count = 0;
    double paid = 0.0;
    bool priced = false;

    // What counts against a budget.
    double spent() const { return priced ? paid : static_cast<double>(entries_read); }
};

class Lines {
  public:
    const int64_t count;  // the number of lines
    const int64_t width;  // the number of entries of a line, stored or not

    virtual ~Lines() = default;

    // The number of entries stored in line i. Nothing is counted, as no entry is read.
    virtual int64_t size(int64_t i) const = 0;
    // What reading line i takes from a budget: the number of its stored entries, unless entries have prices.
    virtual double price(int64_t i) const { return static_cast<double>(size(i)); }

    // <line i, v>
    virtual double dot(int64_t i, const double* v) const = 0;
    // v <- v + a * line i
    virtual void axpy(int64_t i, double a, double* v) const = 0;
    // |line i|^2
    virtual double sq_norm(int64_t i) const = 0;
    // |line i - v|^2, where |v|^2 is known
    virtual double sq_distance(int64_t i, const double* v, double sq_v) const = 0;
    // Copies the indices and values of line i into `where` and `value`, which have room for size(i); returns size(i).
    virtual int64_t read(int64_t i, int64_t* where, double* value) const = 0;
    // Entry j of line i; counts as one entry, stored or not.
    virtual double entry(int64_t i, int64_t j) const = 0;
    // Starts loading line i into the processor's cache, as it is needed soon. Nothing is counted.
    virtual void prefetch(int64_t i) const = 0;

  protected:
    Lines(int64_t count_, int64_t width_, Reads* reads) : count(count_), width(width_), reads_(reads) {}

    void charge(int64_t i) const {
        reads_->entries_read += size(i);
        reads_->dense_count += width;
    }
    void charge_one() const {
        reads_->entries_read += 1;
        reads_->dense_count += 1;
    }

  private:
    Reads* reads_;
};

// Starts loading an array, from `first` up to `last`, into the processor's cache.
template <class T>
inline void prefetch_range(const T* first, const T* last) {
#if defined(__GNUC__)
    constexpr int64_t step = 64 / sizeof(T);
    for (const T* at = first; at < last; at += step) __builtin_prefetch(at);
#else
    (void)first, (void)last;
#endif
}

// <x, v>. There are eight partial sums, as each addition to a single one would wait for the previous addition.
template <class T>
inline double wide_dot_loop(const T* x, const double* v, int64_t size) {
    double s[8] = {0.0}, rest = 0.0;
    int64_t j = 0;
    for (; j + 8 <= size; j += 8)
        for (int k = 0; k < 8; ++k) s[k] += static_cast<double>(x[j + k]) * v[j + k];
    for (; j < size; ++j) rest += static_cast<double>(x[j]) * v[j];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
}
// |x - v|^2
template <class T>
inline double wide_sq_distance_loop(const T* x, const double* v, int64_t size) {
    double s[8] = {0.0}, rest = 0.0;
    int64_t j = 0;
    for (; j + 8 <= size; j += 8)
        for (int k = 0; k < 8; ++k) {
            const double difference = static_cast<double>(x[j + k]) - v[j + k];
            s[k] += difference * difference;
        }
    for (; j < size; ++j) {
        const double difference = static_cast<double>(x[j]) - v[j];
        rest += difference * difference;
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
}
// v <- v + a x
template <class T>
inline void wide_axpy_loop(double a, const T* x, double* v, int64_t size) {
    for (int64_t j = 0; j < size; ++j) v[j] += a * static_cast<double>(x[j]);
}
// Only functions that are not templates can be compiled for several instruction sets.
MAXMARGIN_WIDE static double wide_dot(const float* x, const double* v, int64_t size) { return wide_dot_loop(x, v, size); }
MAXMARGIN_WIDE static double wide_dot(const double* x, const double* v, int64_t size) { return wide_dot_loop(x, v, size); }
MAXMARGIN_WIDE static double wide_sq_distance(const float* x, const double* v, int64_t size) {
    return wide_sq_distance_loop(x, v, size);
}
MAXMARGIN_WIDE static double wide_sq_distance(const double* x, const double* v, int64_t size) {
    return wide_sq_distance_loop(x, v, size);
}
MAXMARGIN_WIDE static void wide_axpy(double a, const float* x, double* v, int64_t size) { wide_axpy_loop(a, x, v, size); }
MAXMARGIN_WIDE static void wide_axpy(double a, const double* x, double* v, int64_t size) { wide_axpy_loop(a, x, v, size); }

// The operations of a line in terms of `Self::each(i, f)`, which calls f(j, x) for the stored entries of line i.
template <class Self>
class EachLine : public Lines {
  public:
    double dot(int64_t i, const double* v) const override {
        charge(i);
        double sum = 0.0;
        self().each(i, [&](int64_t j, double x) { sum += x * v[j]; });
        return sum;
    }
    void axpy(int64_t i, double a, double* v) const override {
        charge(i);
        self().each(i, [&](int64_t j, double x) { v[j] += a * x; });
    }
    double sq_norm(int64_t i) const override {
        charge(i);
        double sum = 0.0;
        self().each(i, [&](int64_t, double x) { sum += x * x; });
        return sum;
    }
    // |v|^2 is the distance from a line of zeros; each stored entry replaces v_j^2 by (x - v_j)^2.
    double sq_distance(int64_t i, const double* v, double sq_v) const override {
        charge(i);
        double sum = sq_v;
        self().each(i, [&](int64_t j, double x) { sum += x * (x - 2.0 * v[j]); });
        return sum;
    }
    int64_t read(int64_t i, int64_t* where, double* value) const override {
        charge(i);
        int64_t k = 0;
        self().each(i, [&](int64_t j, double x) {
            where[k] = j;
            value[k++] = x;
        });
        return k;
    }

  protected:
    using Lines::Lines;

  private:
    const Self& self() const { return static_cast<const Self&>(*this); }
};

// Lines of a dense array, in any order and with any strides (counted in items).
template <class T>
class Strided final : public EachLine<Strided<T>> {
  public:
    Strided(const T* data, int64_t count, int64_t width, int64_t line_stride, int64_t entry_stride, Reads* reads)
        : EachLine<Strided<T>>(count, width, reads), data_(data), line_(line_stride), entry_(entry_stride) {}

    int64_t size(int64_t) const override { return this->width; }

    double entry(int64_t i, int64_t j) const override {
        this->charge_one();
        return data_[i * line_ + j * entry_];
    }

    void prefetch(int64_t i) const override {
        if (entry_ == 1) prefetch_range(data_ + i * line_, data_ + i * line_ + this->width);
    }

    double dot(int64_t i, const double* v) const override {
        if (entry_ != 1) return EachLine<Strided<T>>::dot(i, v);
        this->charge(i);
        return wide_dot(data_ + i * line_, v, this->width);
    }
    void axpy(int64_t i, double a, double* v) const override {
        if (entry_ != 1) return EachLine<Strided<T>>::axpy(i, a, v);
        this->charge(i);
        wide_axpy(a, data_ + i * line_, v, this->width);
    }
    // As all entries are stored, each difference is computed: no digits are lost, however far the line is from zero.
    double sq_distance(int64_t i, const double* v, double) const override {
        this->charge(i);
        if (entry_ == 1) return wide_sq_distance(data_ + i * line_, v, this->width);
        double sum = 0.0;
        each(i, [&](int64_t j, double x) { sum += (x - v[j]) * (x - v[j]); });
        return sum;
    }

    template <class F>
    void each(int64_t i, F f) const {
        const T* x = data_ + i * line_;
        if (entry_ == 1) {
            for (int64_t j = 0; j < this->width; ++j) f(j, static_cast<double>(x[j]));
        } else {
            for (int64_t j = 0; j < this->width; ++j) f(j, static_cast<double>(x[j * entry_]));
        }
    }

  private:
    const T* data_;
    int64_t line_, entry_;
};

// Lines of a compressed matrix: the rows of CSR, the columns of CSC. The indices of a line are distinct, in any order.
template <class T, class I>
class Compressed final : public EachLine<Compressed<T, I>> {
  public:
    Compressed(const T* data, const I* indices, const I* indptr, int64_t count, int64_t width, Reads* reads)
        : EachLine<Compressed<T, I>>(count, width, reads), data_(data), indices_(indices), indptr_(indptr) {}

    int64_t size(int64_t i) const override { return indptr_[i + 1] - indptr_[i]; }

    double entry(int64_t i, int64_t j) const override {
        this->charge_one();
        for (I k = indptr_[i]; k < indptr_[i + 1]; ++k)
            if (indices_[k] == j) return data_[k];
        return 0.0;
    }

    void prefetch(int64_t i) const override {
        prefetch_range(data_ + indptr_[i], data_ + indptr_[i + 1]);
        prefetch_range(indices_ + indptr_[i], indices_ + indptr_[i + 1]);
    }

    // There are four partial sums, as each addition to a single one would wait for the previous addition.
    double dot(int64_t i, const double* v) const override {
        this->charge(i);
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        I k = indptr_[i];
        const I stop = indptr_[i + 1];
        for (; k + 4 <= stop; k += 4) {
            s0 += data_[k] * v[indices_[k]];
            s1 += data_[k + 1] * v[indices_[k + 1]];
            s2 += data_[k + 2] * v[indices_[k + 2]];
            s3 += data_[k + 3] * v[indices_[k + 3]];
        }
        for (; k < stop; ++k) s0 += data_[k] * v[indices_[k]];
        return (s0 + s1) + (s2 + s3);
    }

    template <class F>
    void each(int64_t i, F f) const {
        const I stop = indptr_[i + 1];
        for (I k = indptr_[i]; k < stop; ++k) f(static_cast<int64_t>(indices_[k]), static_cast<double>(data_[k]));
    }

  private:
    const T* data_;
    const I* indices_;
    const I* indptr_;
};

// Lines that lie elsewhere, in blocks of consecutive lines, of which one is in memory here at a time. If a block cannot be read, its
// lines count as zeros: whoever gave `fetch` keeps the error, and raises it once the compiled code has returned.
class Blocked final : public Lines {
  public:
    // The lines of a block in memory, valid until the next call; null if it cannot be read.
    using Fetch = const Lines* (*)(void* reader, int64_t block);

    // `starts` holds the first line of each block, then the number of lines; `sizes` and `prices` one number a line, or are null if
    // all entries are stored, or have no price.
    Blocked(const int64_t* starts, int64_t blocks, int64_t width, const int64_t* sizes, const double* prices, Fetch fetch, void* reader,
            Reads* reads)
        : Lines(starts[blocks], width, reads), starts_(starts), blocks_(blocks), sizes_(sizes), prices_(prices), fetch_(fetch),
          reader_(reader) {}

    int64_t size(int64_t i) const override { return sizes_ ? sizes_[i] : width; }
    double price(int64_t i) const override { return prices_ ? prices_[i] : static_cast<double>(size(i)); }

    double dot(int64_t i, const double* v) const override { return at(i) ? lines_->dot(i - first_, v) : 0.0; }
    void axpy(int64_t i, double a, double* v) const override {
        if (at(i)) lines_->axpy(i - first_, a, v);
    }
    double sq_norm(int64_t i) const override { return at(i) ? lines_->sq_norm(i - first_) : 0.0; }
    double sq_distance(int64_t i, const double* v, double sq_v) const override {
        return at(i) ? lines_->sq_distance(i - first_, v, sq_v) : sq_v;
    }
    int64_t read(int64_t i, int64_t* where, double* value) const override {
        if (at(i)) return lines_->read(i - first_, where, value);
        for (int64_t k = 0; k < size(i); ++k) where[k] = k, value[k] = 0.0;
        return size(i);
    }
    double entry(int64_t i, int64_t j) const override { return at(i) ? lines_->entry(i - first_, j) : 0.0; }
    // What another block holds is read ahead by whoever gave `fetch`.
    void prefetch(int64_t i) const override {
        if (lines_ && first_ <= i && i < last_) lines_->prefetch(i - first_);
    }

    // The lines that `fetch` gave last are no longer valid.
    void forget() { first_ = last_ = 0; }

  private:
    // Has the block of line i in memory; false if it cannot be read.
    bool at(int64_t i) const {
        if (first_ <= i && i < last_) return lines_ != nullptr;
        const int64_t block = std::upper_bound(starts_, starts_ + blocks_ + 1, i) - starts_ - 1;
        lines_ = fetch_(reader_, block);
        first_ = starts_[block], last_ = starts_[block + 1];
        return lines_ != nullptr;
    }

    const int64_t* starts_;
    int64_t blocks_;
    const int64_t* sizes_;
    const double* prices_;
    Fetch fetch_;
    void* reader_;
    mutable const Lines* lines_ = nullptr;
    mutable int64_t first_ = 0, last_ = 0;
};

}  // namespace maxmargin
