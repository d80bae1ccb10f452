/* What one writes by hand in an hour: rows in parallel, tiles of 64 columns in registers (GNU C). */

#include <float.h>
#include <math.h>
#include <stdint.h>

typedef float wide __attribute__((vector_size(64), aligned(4)));
enum { LANES = 16, TILE = 4 };

static void row_tile(int64_t begin, int64_t end, const int32_t *indices, const float *data,
                     const float *x, int64_t k, float *out, int count) {
    wide sum[TILE] = {0};
    for (int64_t p = begin; p < end; p++) {
        const wide *row = (const wide *)(x + indices[p] * k);
        if (count == TILE)
            for (int t = 0; t < TILE; t++) sum[t] += data[p] * row[t];
        else
            for (int t = 0; t < count; t++) sum[t] += data[p] * row[t];
    }
    for (int t = 0; t < count; t++) ((wide *)out)[t] = sum[t];
}

void spmm(int64_t rows, int64_t k, const int32_t *indptr, const int32_t *indices,
          const float *data, const float *x, float *out) {
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = 0;
        for (; at + TILE * LANES <= k; at += TILE * LANES)
            row_tile(indptr[i], indptr[i + 1], indices, data, x + at, k, out + i * k + at, TILE);
        if (at + 2 * LANES <= k) {
            row_tile(indptr[i], indptr[i + 1], indices, data, x + at, k, out + i * k + at, 2);
            at += 2 * LANES;
        }
        for (; at < k; at++) {
            float sum = 0;
            for (int64_t p = indptr[i]; p < indptr[i + 1]; p++)
                sum += data[p] * x[indices[p] * k + at];
            out[i * k + at] = sum;
        }
    }
}

void sddmm(int64_t rows, int64_t k, const int32_t *indptr, const int32_t *indices,
           const float *data, const float *x, const float *y, float *out) {
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = indptr[i]; p < indptr[i + 1]; p++) {
            const float *left = x + i * k, *right = y + indices[p] * k;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t at = 0; at < k; at++) sum += left[at] * right[at];
            out[p] = data[p] * sum;
        }
}

void softmax(int64_t rows, const int32_t *indptr, float scale, float *values) {
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t i = 0; i < rows; i++) {
        float most = -FLT_MAX, sum = 0;
        for (int64_t p = indptr[i]; p < indptr[i + 1]; p++)
            most = values[p] > most ? values[p] : most;
        for (int64_t p = indptr[i]; p < indptr[i + 1]; p++)
            sum += values[p] = expf(scale * (values[p] - most));
        for (int64_t p = indptr[i]; p < indptr[i + 1]; p++) values[p] /= sum;
    }
}

void triad(int64_t count, const float *a, const float *b, float *c) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) c[i] = a[i] + 3.0f * b[i];
}
