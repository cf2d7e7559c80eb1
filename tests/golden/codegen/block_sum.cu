// block_sum
#define DEV __device__ __forceinline__
DEV void copy16(void* dst, const void* src) { *(uint4*)dst = *(const uint4*)src; }
extern "C" __global__ void __launch_bounds__(256, 1) block_sum(const float* x, float* out) {
  extern __shared__ __align__(1024) unsigned char smem[];
  float* partial = (float*)smem;
  const int thread = threadIdx.x;
  float four[4];
  copy16(four, x + thread * 4);
  const float total = four[0] + four[1] + four[2] + four[3];
  const float other = __shfl_xor_sync(0xffffffffu, total, 16);
  const float total_1 = total + other;
  const float other_1 = __shfl_xor_sync(0xffffffffu, total_1, 8);
  const float total_2 = total_1 + other_1;
  const float other_2 = __shfl_xor_sync(0xffffffffu, total_2, 4);
  const float total_3 = total_2 + other_2;
  const float other_3 = __shfl_xor_sync(0xffffffffu, total_3, 2);
  const float total_4 = total_3 + other_3;
  const float other_4 = __shfl_xor_sync(0xffffffffu, total_4, 1);
  if ((thread & 31) == 0) {
    partial[thread >> 5] = total_4 + other_4;
  }
  __syncthreads();
  if (thread == 0) {
    float sum = 0.0f;
    #pragma unroll
    for (int w = 0; w < 8; w++) {
      sum += partial[w];
    }
    out[(int)blockIdx.x] = sum;
  }
}
