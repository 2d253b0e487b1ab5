// One token of one sequence through the layers of a language model. All time goes into reading weights, so that each
// kernel reads them once, many rows at a time, and does all else on the way.
//
// Compiled with: NARROW (numbers are bfloat16, otherwise float32), HEAD (numbers of a head), GROUP (query heads that
// share keys).
// Sums are float32; rounding is that of the network's own modules, which round each result to their type.

constexpr int THREADS = 128;
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

extern __shared__ uint4 memory[];

// The vector in shared memory, divided by its root mean square and scaled where there is a norm.
__device__ const Pack* vector(const number* x, const number* norm, float eps, int width) {
    __shared__ float sums[WARPS];
    Pack* kept = reinterpret_cast<Pack*>(memory);
    int packs = width / PACK;
    float sum = 0;
    for (int at = threadIdx.x; at < packs; at += THREADS) {
        Pack pack = fresh(x + at * PACK);
        kept[at] = pack;
        if (norm) sum = product(pack.all, pack, sum);
    }
    if (norm) {
        sum = over_warp(sum);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0;
        for (int warp = 0; warp < WARPS; warp++) sum += sums[warp];
        float scale = rsqrtf(sum / width + eps);
        for (int at = threadIdx.x; at < packs; at += THREADS) {
            Pack pack = kept[at], factors;
            factors.all = __ldg(reinterpret_cast<const uint4*>(norm) + at);
            for (int i = 0; i < PACK; i++) {
                pack.each[i] = narrow(wide(factors.each[i]) * rounded(wide(pack.each[i]) * scale));
            }
            kept[at] = pack;
        }
    }
    __syncthreads();
    return kept;
}

struct Two {
    float first, second;
};

// Products of two rows with the vector, known to all threads of the warp.
__device__ Two products_of(const number* first, const number* second, const Pack* vector, int width) {
    constexpr int AT_ONCE = 4;
    int packs = width / PACK;
    Two sums = {0, 0};
    for (int begin = threadIdx.x % 32; begin < packs; begin += 32 * AT_ONCE) {
        uint4 a[AT_ONCE], b[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int at = begin + 32 * i;
            if (at < packs) a[i] = weights(first + at * PACK);
            if (at < packs) b[i] = weights(second + at * PACK);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int at = begin + 32 * i;
            if (at >= packs) continue;
            sums.first = product(a[i], vector[at], sums.first);
            sums.second = product(b[i], vector[at], sums.second);
        }
    }
    return {over_warp(sums.first), over_warp(sums.second)};
}

__device__ int first_pair() { return blockIdx.x * WARPS + threadIdx.x / 32; }

// out = weight · norm(x) + residual
extern "C" __global__ void __launch_bounds__(THREADS) products(
    const number* x, const number* norm, float eps, int width, const number* weight, int rows, const number* residual,
    number* out) {
    const Pack* given = vector(x, norm, eps, width);
    for (int pair = first_pair(); pair < (rows + 1) / 2; pair += gridDim.x * WARPS) {
        int row = 2 * pair, next = min(row + 1, rows - 1);
        Two sums = products_of(weight + 1ll * row * width, weight + 1ll * next * width, given, width);
        int lane = threadIdx.x % 32;
        if (lane > 1 || row + lane >= rows) continue;
        float sum = lane ? sums.second : sums.first;
        if (residual) sum = rounded(sum) + wide(__ldcg(residual + row + lane));
        out[row + lane] = narrow(sum);
    }
}

// out = silu(gate · norm(x)) * (up · norm(x))
extern "C" __global__ void __launch_bounds__(THREADS) gated_products(
    const number* x, const number* norm, float eps, int width, const number* gate, const number* up, int rows,
    number* out) {
    const Pack* given = vector(x, norm, eps, width);
    for (int row = first_pair(); row < rows; row += gridDim.x * WARPS) {
        Two sums = products_of(gate + 1ll * row * width, up + 1ll * row * width, given, width);
        if (threadIdx.x % 32) continue;
        float open = rounded(sums.first);
        out[row] = narrow(rounded(open / (1 + expf(-open))) * rounded(sums.second));
    }
}

// Queries, and keys and values at their place in the memory, of which queries and keys are rotated. A warp computes two
// numbers that are rotated together.
extern "C" __global__ void __launch_bounds__(THREADS) attention_inputs(
    const number* x, const number* norm, float eps, int width, const number* query_weight, const number* key_weight,
    const number* value_weight, const number* query_bias, const number* key_bias, const number* value_bias,
    const number* cosines, const number* sines, const long long* place, int heads, int length, number* queries,
    number* keys, number* values) {
    constexpr int HALF = HEAD / 2;
    int shared = heads / GROUP, pair = first_pair(), head = pair / HALF, at = pair % HALF;
    const number *weight = query_weight, *bias = query_bias;
    int own = head;
    if (head >= heads) weight = key_weight, bias = key_bias, own = head - heads;
    if (head >= heads + shared) weight = value_weight, bias = value_bias, own = head - heads - shared;
    bool exists = head < heads + 2 * shared;
    int row = own * HEAD + at;
    const number *first = weight + 1ll * row * width, *second = first + 1ll * HALF * width;
    const Pack* given = vector(x, norm, eps, width);
    if (!exists) return;
    Two sums = products_of(first, second, given, width);
    if (threadIdx.x % 32) return;
    float a = sums.first, b = sums.second;
    if (bias) a += wide(bias[row]), b += wide(bias[row + HALF]);
    a = rounded(a), b = rounded(b);
    long long stored = (1ll * own * length + __ldcg(place)) * HEAD + at;
    if (head >= heads + shared) {
        values[stored] = narrow(a);
        values[stored + HALF] = narrow(b);
        return;
    }
    float turned = rounded(a * wide(__ldcg(cosines + at))) + rounded(-b * wide(__ldcg(sines + at)));
    float other = rounded(b * wide(__ldcg(cosines + at + HALF))) + rounded(a * wide(__ldcg(sines + at + HALF)));
    number* out = head < heads ? queries + row : keys + stored;
    out[0] = narrow(turned);
    out[HALF] = narrow(other);
}

// Attention of the query heads that share a head of keys to a part of the tokens; who is done last adds up the parts.
constexpr int LANES = HEAD / PACK;         // threads that read a key together
constexpr int SLOTS = THREADS / LANES;     // keys that are read at once
constexpr int RESULT = GROUP * (HEAD + 2); // sums, and for each query the largest score and the sum of weights

extern "C" __global__ void __launch_bounds__(THREADS) attention(
    const number* queries, const number* keys, const number* values, const float* mask, const long long* place,
    float scaling, int length, float* parts, unsigned* done, number* out) {
    __shared__ float results[SLOTS][GROUP][HEAD + 2];
    __shared__ bool last;
    int head = blockIdx.y, splits = gridDim.x, slot = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int count = static_cast<int>(__ldcg(place)) + 1, size = (count + splits - 1) / splits;
    int begin = blockIdx.x * size, end = min(begin + size, count);
    Pack query[GROUP];
    float largest[GROUP], total[GROUP], sums[GROUP][PACK];
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        query[g] = fresh(queries + (head * GROUP + g) * HEAD + lane * PACK);
        largest[g] = NOTHING;
        total[g] = 0;
        for (int i = 0; i < PACK; i++) sums[g][i] = 0;
    }
    const number* own_keys = keys + 1ll * head * length * HEAD + lane * PACK;
    const number* own_values = values + 1ll * head * length * HEAD + lane * PACK;
#pragma unroll 4
    for (int base = begin; base < end; base += SLOTS) {
        int token = base + slot;
        bool exists = token < end;
        long long at = 1ll * (exists ? token : begin) * HEAD;
        Pack key = fresh(own_keys + at), value = fresh(own_values + at);
        float added = exists ? mask ? __ldcg(mask + token) : 0 : NOTHING;
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float score = product(key.all, query[g], 0);
#pragma unroll
            for (int step = LANES / 2; step; step >>= 1) score += __shfl_xor_sync(~0u, score, step);
            score = score * scaling + added;
            float top = fmaxf(largest[g], score);
            // Where all scores so far are minus infinity, their difference is no number.
            float shrunk = largest[g] == top ? 1 : expf(largest[g] - top);
            float weight = score == NOTHING ? 0 : expf(score - top);
            largest[g] = top;
            total[g] = total[g] * shrunk + weight;
#pragma unroll
            for (int i = 0; i < PACK; i++) sums[g][i] = sums[g][i] * shrunk + weight * wide(value.each[i]);
        }
    }
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        for (int i = 0; i < PACK; i++) results[slot][g][lane * PACK + i] = sums[g][i];
        if (lane == 0) results[slot][g][HEAD] = largest[g], results[slot][g][HEAD + 1] = total[g];
    }
    __syncthreads();
    float* mine = parts + (1ll * head * splits + blockIdx.x) * RESULT;
    for (int item = threadIdx.x; item < RESULT; item += THREADS) {
        int g = item / (HEAD + 2), i = item % (HEAD + 2);
        float top = NOTHING, sum = 0;
        for (int s = 0; s < SLOTS; s++) top = fmaxf(top, results[s][g][HEAD]);
        for (int s = 0; s < SLOTS && i != HEAD; s++) {
            float own = results[s][g][HEAD];
            sum += own == NOTHING ? results[s][g][i] : results[s][g][i] * expf(own - top);
        }
        __stcg(mine + item, i == HEAD ? top : sum);
    }
    __threadfence();
    __syncthreads();
    // The counter is at zero again after the last part.
    if (threadIdx.x == 0) last = atomicInc(done + head, splits - 1) == splits - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    const float* all = parts + 1ll * head * splits * RESULT;
    for (int item = threadIdx.x; item < GROUP * HEAD; item += THREADS) {
        int g = item / HEAD, i = item % HEAD;
        float top = NOTHING, sum = 0, weights = 0;
        for (int s = 0; s < splits; s++) top = fmaxf(top, __ldcg(all + s * RESULT + g * (HEAD + 2) + HEAD));
        for (int s = 0; s < splits; s++) {
            const float* part = all + s * RESULT + g * (HEAD + 2);
            float own = __ldcg(part + HEAD), factor = own == NOTHING ? 1 : expf(own - top);
            sum += factor * __ldcg(part + i);
            weights += factor * __ldcg(part + HEAD + 1);
        }
        out[(head * GROUP + g) * HEAD + i] = narrow(sum / weights);
    }
}
