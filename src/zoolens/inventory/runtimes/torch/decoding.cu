// One token of one sequence through the layers of a language model. All time goes into reading weights, so that each
// kernel reads them once, many rows at a time, and does all else on the way.
//
// Compiled with: NARROW (numbers are bfloat16, otherwise float32), HEAD (numbers of a head), GROUP (query heads that
// share keys).
// Sums are float32; rounding is that of the network's own modules, which round each result to their type.

constexpr int THREADS = 512;  // two blocks for each multiprocessor: every block reads the whole vector
constexpr int WARPS = THREADS / 32;
#define NOTHING __int_as_float(0xff800000)  // minus infinity: the score of a token that is not seen

#ifdef NARROW
typedef unsigned short number;

__device__ float wide(number value) { return __uint_as_float(static_cast<unsigned>(value) << 16); }

__device__ number narrow(float value) {
    unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;  // NaN
    return static_cast<number>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
#else
typedef float number;

__device__ float wide(number value) { return value; }
__device__ number narrow(float value) { return value; }
#endif

constexpr int PACK = 16 / sizeof(number);  // numbers that a thread reads at once

__device__ float rounded(float value) { return wide(narrow(value)); }

union Pack {
    uint4 all;
    number each[PACK];
};

// Results of other kernels and blocks, past the cache that each multiprocessor has for itself.
__device__ Pack fresh(const number* place) {
    Pack pack;
    pack.all = __ldcg(reinterpret_cast<const uint4*>(place));
    return pack;
}

__device__ uint4 weights(const number* place) {
    uint4 found;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w) : "l"(place));
    return found;
}

__device__ float product(uint4 a, const Pack& b, float sum) {
    Pack pack;
    pack.all = a;
#pragma unroll
    for (int i = 0; i < PACK; i++) sum = fmaf(wide(pack.each[i]), wide(b.each[i]), sum);
    return sum;
}

__device__ float over_warp(float value) {
#pragma unroll
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// The kernel behind may start, and waits for the results of this one.
__device__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

constexpr int LINE = 128 / sizeof(number);  // numbers that go to the cache together

__device__ void fetch(const number* line) { asm volatile("prefetch.global.L2 [%0];" :: "l"(line)); }

extern __shared__ uint4 memory[];

// The vector in shared memory, divided by its root mean square and scaled where there is a norm.
__device__ const Pack* vector(const number* x, const number* norm, float eps, int width) {
    constexpr int LOADS = 4;
    __shared__ float sums[WARPS];
    Pack* kept = reinterpret_cast<Pack*>(memory);
    int packs = width / PACK;
    wait_for_kernel_before();
    float sum = 0;
    for (int begin = threadIdx.x; begin < packs; begin += THREADS * LOADS) {
        Pack found[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int at = begin + i * THREADS;
            if (at < packs) found[i] = fresh(x + at * PACK);
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int at = begin + i * THREADS;
            if (at >= packs) continue;
            kept[at] = found[i];
            if (norm) sum = product(found[i].all, found[i], sum);
        }
    }
    if (norm) {
        sum = over_warp(sum);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0;
        for (int warp = 0; warp < WARPS; warp++) sum += sums[warp];
        float scale = rsqrtf(sum / width + eps);
#pragma unroll 2
        for (int at = threadIdx.x; at < packs; at += THREADS) {
            Pack pack = kept[at], factors;
            factors.all = __ldg(reinterpret_cast<const uint4*>(norm) + at);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                pack.each[i] = narrow(wide(factors.each[i]) * rounded(wide(pack.each[i]) * scale));
            }
            kept[at] = pack;
        }
    }
    __syncthreads();
    return kept;
}

// Two rows of weights, of which a warp reads some numbers at once.
struct Rows {
    const number *first, *second;
};

constexpr int READS = 4;  // of each thread and row

struct Chunk {
    uint4 first[READS], second[READS];
};

__device__ void read(Chunk& chunk, Rows rows, int begin, int packs) {
#pragma unroll
    for (int i = 0; i < READS; i++) {
        int at = begin + 32 * i;
        if (at < packs) chunk.first[i] = weights(rows.first + at * PACK);
        if (at < packs) chunk.second[i] = weights(rows.second + at * PACK);
    }
}

struct Sums {
    float first, second;
};

__device__ void add(Sums& sums, const Chunk& chunk, const Pack* vector, int begin, int packs) {
#pragma unroll
    for (int i = 0; i < READS; i++) {
        int at = begin + 32 * i;
        if (at >= packs) continue;
        sums.first = product(chunk.first[i], vector[at], sums.first);
        sums.second = product(chunk.second[i], vector[at], sums.second);
    }
}

// Products of pairs of rows with a vector. Pairs go round the blocks, so that each multiprocessor reads as much, and
// `split` warps read a pair together. `rows` gives the rows of a pair, `take` is
// given their sums in all threads of a warp.
template <typename RowsOf, typename Take>
__device__ void products_of_pairs(
    int pairs, int split, const number* x, const number* norm, float eps, int width, RowsOf rows, Take take) {
    __shared__ Sums parts[WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % split, of_block = WARPS / split;
    int packs = width / PACK, begin = lane + 32 * READS * part;
    int pair = blockIdx.x + gridDim.x * (warp / split), step = gridDim.x * of_block;
    // The vector first: behind weights it would wait for them.
    const Pack* given = vector(x, norm, eps, width);
    Chunk chunk;
    if (pair < pairs) read(chunk, rows(pair), begin, packs);
    for (int first = 0; first < pairs; first += step) {
        Sums sums = {0, 0};
        if (pair < pairs) {
            add(sums, chunk, given, begin, packs);
            Rows own = rows(pair);
            for (int at = begin + 32 * READS * split; at < packs; at += 32 * READS * split) {
                read(chunk, own, at, packs);
                add(sums, chunk, given, at, packs);
            }
        }
        int next = pair + step;
        if (next < pairs) read(chunk, rows(next), begin, packs);
        if (first + step >= pairs) let_next_kernel_start();
        sums = {over_warp(sums.first), over_warp(sums.second)};
        if (split > 1) {
            if (lane == 0) parts[warp] = sums;
            __syncthreads();
            for (int i = 1; i < split && !part; i++) {
                sums.first += parts[warp + i].first;
                sums.second += parts[warp + i].second;
            }
            __syncthreads();
        }
        if (pair < pairs && !part) take(pair, sums);
        pair = next;
    }
}

// out = weight · x + residual
extern "C" __global__ void __launch_bounds__(THREADS, 2) products(
    const number* x, int width, const number* weight, int rows, const number* residual, number* out, int split) {
    products_of_pairs(
        (rows + 1) / 2, split, x, nullptr, 0, width,
        [=](int pair) {
            const number* first = weight + 2ll * pair * width;
            return Rows{first, 2 * pair + 1 < rows ? first + width : first};
        },
        [=](int pair, Sums sums) {
            int lane = threadIdx.x % 32, row = 2 * pair + lane;
            if (lane > 1 || row >= rows) return;
            float sum = lane ? sums.second : sums.first;
            if (residual) sum = rounded(sum) + wide(__ldcg(residual + row));
            out[row] = narrow(sum);
        });
}

// out = silu(gate · norm(x)) * (up · norm(x))
extern "C" __global__ void __launch_bounds__(THREADS, 2) gated_products(
    const number* x, const number* norm, float eps, int width, const number* gate, const number* up, int rows,
    number* out) {
    products_of_pairs(
        rows, 1, x, norm, eps, width, [=](int row) { return Rows{gate + 1ll * row * width, up + 1ll * row * width}; },
        [=](int row, Sums sums) {
            if (threadIdx.x % 32) return;
            float open = rounded(sums.first);
            out[row] = narrow(rounded(open / (1 + expf(-open))) * rounded(sums.second));
        });
}

// Queries, and keys and values at their place in the memory, of which queries and keys are rotated. A pair are two
// numbers that are rotated together.
extern "C" __global__ void __launch_bounds__(THREADS, 2) attention_inputs(
    const number* x, const number* norm, float eps, int width, const number* query_weight, const number* key_weight,
    const number* value_weight, const number* query_bias, const number* key_bias, const number* value_bias,
    const number* cosines, const number* sines, const long long* place, int heads, int length, number* queries,
    number* keys, number* values) {
    constexpr int HALF = HEAD / 2;
    int shared = heads / GROUP;
    products_of_pairs(
        (heads + 2 * shared) * HALF, 1, x, norm, eps, width,
        [=](int pair) {
            int head = pair / HALF, at = pair % HALF;
            const number* weight = query_weight;
            if (head >= heads) weight = key_weight, head -= heads;
            if (weight == key_weight && head >= shared) weight = value_weight, head -= shared;
            const number* first = weight + 1ll * (head * HEAD + at) * width;
            return Rows{first, first + 1ll * HALF * width};
        },
        [=](int pair, Sums sums) {
            if (threadIdx.x % 32) return;
            int head = pair / HALF, at = pair % HALF;
            bool query = head < heads, value = head >= heads + shared;
            int own = query ? head : value ? head - heads - shared : head - heads, row = own * HEAD + at;
            const number* bias = query ? query_bias : value ? value_bias : key_bias;
            float a = sums.first, b = sums.second;
            if (bias) a += wide(bias[row]), b += wide(bias[row + HALF]);
            a = rounded(a), b = rounded(b);
            number* out = query ? queries + row : (value ? values : keys) + (1ll * own * length + __ldcg(place)) * HEAD + at;
            if (!value) {
                float turned = rounded(a * wide(__ldcg(cosines + at))) + rounded(-b * wide(__ldcg(sines + at)));
                b = rounded(b * wide(__ldcg(cosines + at + HALF))) + rounded(a * wide(__ldcg(sines + at + HALF)));
                a = turned;
            }
            out[0] = narrow(a);
            out[HALF] = narrow(b);
        });
}

// Attention of the query heads that share a head of keys to a part of the tokens; who is done last adds up the parts.
constexpr int ATTENDING = 256;             // threads
constexpr int LANES = HEAD / PACK;         // threads that read a key together
constexpr int SLOTS = ATTENDING / LANES;   // keys that are read at once
constexpr int AT_ONCE = 4;                 // of each slot
constexpr int MOST_PARTS = 64;
constexpr int SUMS = GROUP * HEAD;

struct Scores {
    float largest, total;
};

__device__ float shrinking(float from, float to) { return from == to ? 1 : expf(from - to); }

extern "C" __global__ void __launch_bounds__(ATTENDING) attention(
    const number* queries, const number* keys, const number* values, const float* mask, const long long* place,
    float scaling, int length, float* parts, unsigned* done, number* out) {
    __shared__ __align__(16) float results[ATTENDING / 32][SUMS];
    __shared__ Scores scores[ATTENDING / 32][GROUP], of_parts[MOST_PARTS][GROUP];
    __shared__ bool last;
    int head = blockIdx.y, slot = threadIdx.x / LANES, lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
    int count = static_cast<int>(__ldcg(place)) + 1;
    int size = max(SLOTS * AT_ONCE, (count + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x));
    int working = (count + size - 1) / size;
    int first = blockIdx.x * size, end = min(first + size, count);
    const number* own_keys = keys + 1ll * head * length * HEAD;
    const number* own_values = values + 1ll * head * length * HEAD;
    for (int at = first * HEAD + threadIdx.x * LINE; at < end * HEAD; at += ATTENDING * LINE) {
        fetch(own_keys + at);
        fetch(own_values + at);
    }
    wait_for_kernel_before();
    if (blockIdx.x >= working) return;
    Pack query[GROUP];
    float largest[GROUP], total[GROUP], sums[GROUP][PACK];
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        query[g] = fresh(queries + (head * GROUP + g) * HEAD + lane * PACK);
        largest[g] = NOTHING;
        total[g] = 0;
#pragma unroll
        for (int i = 0; i < PACK; i++) sums[g][i] = 0;
    }
    own_keys += lane * PACK;
    own_values += lane * PACK;
    for (int base = first; base < end; base += SLOTS * AT_ONCE) {
        Pack key[AT_ONCE], value[AT_ONCE];
        float added[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int token = base + j * SLOTS + slot;
            long long at = 1ll * min(token, end - 1) * HEAD;
            key[j] = fresh(own_keys + at);
            value[j] = fresh(own_values + at);
            added[j] = token < end ? __ldcg(mask + token) : NOTHING;
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float score[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) score[j] = product(key[j].all, query[g], 0);
#pragma unroll
            for (int step = LANES / 2; step; step >>= 1) {
#pragma unroll
                for (int j = 0; j < AT_ONCE; j++) score[j] += __shfl_xor_sync(~0u, score[j], step);
            }
            float top = largest[g];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                score[j] = score[j] * scaling + added[j];
                top = fmaxf(top, score[j]);
            }
            // Where all scores so far are minus infinity, their difference is no number.
            float shrunk = shrinking(largest[g], top);
            largest[g] = top;
            total[g] *= shrunk;
#pragma unroll
            for (int i = 0; i < PACK; i++) sums[g][i] *= shrunk;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                float weight = score[j] == NOTHING ? 0 : expf(score[j] - top);
                total[g] += weight;
#pragma unroll
                for (int i = 0; i < PACK; i++) sums[g][i] += weight * wide(value[j].each[i]);
            }
        }
    }
    let_next_kernel_start();
    // The slots of a warp, then the warps of the block.
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
#pragma unroll
        for (int step = LANES; step < 32; step <<= 1) {
            float other = __shfl_xor_sync(~0u, largest[g], step), top = fmaxf(largest[g], other);
            float mine = shrinking(largest[g], top), theirs = shrinking(other, top);
            largest[g] = top;
            total[g] = total[g] * mine + __shfl_xor_sync(~0u, total[g], step) * theirs;
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                sums[g][i] = sums[g][i] * mine + __shfl_xor_sync(~0u, sums[g][i], step) * theirs;
            }
        }
        if (threadIdx.x % 32 < LANES) {
#pragma unroll
            for (int i = 0; i < PACK; i++) results[warp][g * HEAD + lane * PACK + i] = sums[g][i];
        }
        if (threadIdx.x % 32 == 0) scores[warp][g] = {largest[g], total[g]};
    }
    __syncthreads();
    float* mine = parts + (1ll * head * gridDim.x + blockIdx.x) * (SUMS + 2 * GROUP);
    for (int item = threadIdx.x; item < SUMS + GROUP; item += ATTENDING) {
        int g = item < SUMS ? item / HEAD : item - SUMS;
        float top = NOTHING, sum = 0;
        for (int w = 0; w < ATTENDING / 32; w++) top = fmaxf(top, scores[w][g].largest);
        for (int w = 0; w < ATTENDING / 32; w++) {
            float factor = shrinking(scores[w][g].largest, top);
            sum += factor * (item < SUMS ? results[w][item] : scores[w][g].total);
        }
        if (item < SUMS) {
            __stcg(mine + item, sum);
        } else {
            __stcg(mine + SUMS + 2 * g, top);
            __stcg(mine + SUMS + 2 * g + 1, sum);
        }
    }
    __threadfence();
    __syncthreads();
    // The counter is at zero again after the last part.
    if (threadIdx.x == 0) last = atomicInc(done + head, working - 1) == working - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    const float* all = parts + 1ll * head * gridDim.x * (SUMS + 2 * GROUP);
    for (int item = threadIdx.x; item < working * GROUP; item += ATTENDING) {
        const float* part = all + (item / GROUP) * (SUMS + 2 * GROUP) + SUMS + 2 * (item % GROUP);
        of_parts[item / GROUP][item % GROUP] = {__ldcg(part), __ldcg(part + 1)};
    }
    __syncthreads();
    for (int item = threadIdx.x; item < SUMS / 2; item += ATTENDING) {
        constexpr int LOADS = 8;
        int g = 2 * item / HEAD;
        float top = NOTHING, weights = 0;
        float2 sum = {0, 0};
        for (int p = 0; p < working; p++) top = fmaxf(top, of_parts[p][g].largest);
        for (int begin = 0; begin < working; begin += LOADS) {
            float2 found[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                int p = min(begin + i, working - 1);
                found[i] = __ldcg(reinterpret_cast<const float2*>(all + p * (SUMS + 2 * GROUP)) + item);
            }
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                if (begin + i >= working) continue;
                Scores own = of_parts[begin + i][g];
                float factor = shrinking(own.largest, top);
                weights += factor * own.total;
                sum.x += factor * found[i].x;
                sum.y += factor * found[i].y;
            }
        }
        number* place_of = out + head * SUMS + 2 * item;
        place_of[0] = narrow(sum.x / weights);
        place_of[1] = narrow(sum.y / weights);
    }
}

// out = norm(x), in one block.
extern "C" __global__ void __launch_bounds__(THREADS) normed(
    const number* x, const number* norm, float eps, int width, number* out) {
    const Pack* given = vector(x, norm, eps, width);
    for (int at = threadIdx.x; at < width / PACK; at += THREADS) reinterpret_cast<Pack*>(out)[at] = given[at];
}

// The largest logit and the sum of exponentials beside it, of each block and then of all.
__device__ Scores together(Scores a, Scores b) {
    float top = fmaxf(a.largest, b.largest);
    return {top, a.total * shrinking(a.largest, top) + b.total * shrinking(b.largest, top)};
}

__device__ Scores over_block(Scores own) {
    __shared__ Scores kept[WARPS];
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        own = together(own, {__shfl_xor_sync(~0u, own.largest, step), __shfl_xor_sync(~0u, own.total, step)});
    }
    if (threadIdx.x % 32 == 0) kept[threadIdx.x / 32] = own;
    __syncthreads();
    own = kept[0];
    for (int w = 1; w < WARPS; w++) own = together(own, kept[w]);
    __syncthreads();
    return own;
}

// `found`: the largest logit, the logarithm of the sum, and the largest log-probability, which is no number where a
// logit is none or where all are minus infinity.
extern "C" __global__ void __launch_bounds__(THREADS) normalisers(
    const number* logits, int count, float2* parts, unsigned* done, float* found) {
    __shared__ bool last;
    wait_for_kernel_before();
    Scores own = {NOTHING, 0};
    for (int at = blockIdx.x * THREADS + threadIdx.x; at < count / PACK; at += gridDim.x * THREADS) {
        Pack pack = fresh(logits + at * PACK);
        for (int i = 0; i < PACK; i++) {
            float logit = wide(pack.each[i]);
            own = together(own, {logit, logit == NOTHING ? 0.0f : logit == logit ? 1.0f : logit});
        }
    }
    own = over_block(own);
    if (threadIdx.x == 0) {
        __stcg(parts + blockIdx.x, make_float2(own.largest, own.total));
        __threadfence();
        last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    own = {NOTHING, 0};
    for (int at = threadIdx.x; at < gridDim.x; at += THREADS) {
        float2 part = __ldcg(parts + at);
        own = together(own, {part.x, part.y});
    }
    own = over_block(own);
    if (threadIdx.x) return;
    found[0] = own.largest;
    found[1] = logf(own.total);
    found[2] = (own.largest - own.largest) - logf(own.total);
}

extern "C" __global__ void __launch_bounds__(THREADS) log_probabilities(
    const number* logits, int count, const float* found, float* out) {
    wait_for_kernel_before();
    float largest = __ldcg(found), logarithm = __ldcg(found + 1);
    for (int at = blockIdx.x * THREADS + threadIdx.x; at < count / PACK; at += gridDim.x * THREADS) {
        Pack pack = fresh(logits + at * PACK);
        for (int i = 0; i < PACK; i++) out[at * PACK + i] = (wide(pack.each[i]) - largest) - logarithm;
    }
}
