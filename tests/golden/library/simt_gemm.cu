// simt_gemm_kernel, from simt_gemm.py
typedef unsigned int u32;
typedef long long i64;
typedef unsigned short bf16;
#define DEV __device__ __forceinline__
template <class T> DEV T floor_div(T a, T b) { const T q = a / b; return q - (q * b != a && (a < 0) != (b < 0)); }
DEV float f32_from_bf16(bf16 x) { return __uint_as_float((u32)x << 16); }
DEV void copy16(void* dst, const void* src) { *(uint4*)dst = *(const uint4*)src; }
DEV u32 pack_bf16(float lo, float hi) {
  u32 d; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}
DEV void copy8(void* dst, const void* src) { *(uint2*)dst = *(const uint2*)src; }
extern "C" __global__ void __launch_bounds__(256, 1)
simt_gemm_kernel(const bf16* mA_0, int mA_1, int mA_2, int mA_3, i64 mA_4, const bf16* mB_0, int mB_1,
    int mB_2, int mB_3, i64 mB_4, bf16* mD_0, int mD_1, int mD_2, int mD_3, i64 mD_4,
    float scalars) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int tid_x = threadIdx.x;
  const int bid_x = blockIdx.x;
  const int per_group = 8 * ((mD_2 + 127) >> 7);
  const int group = floor_div<int>(bid_x, per_group);
  const int inside = bid_x - group * per_group;
  const int first_row = group * 8;
  const int rows = min(((mD_1 + 127) >> 7) - first_row, 8);
  const int column = floor_div<int>(inside, rows);
  const int v0 = first_row + (inside - column * rows);
  float* sA = (float*)smem;
  float* sB = (float*)(smem + 4208);
  const int v1 = tid_x & 15;
  const int v2 = v1 * 4;
  float* tCsA = sA + v2;
  const int v3 = ((tid_x >> 4) & 15) * 4;
  float* tCsB = sB + v3;
  float tCrA[8];
  float tCrB[8];
  float acc[64];
  #pragma unroll
  for (int i = 0; i < 64; i++) {
    acc[i] = 0.0f;
  }
  #pragma unroll 1
  for (int k_tile = 0; k_tile < ((mA_2 + 7) >> 3); k_tile++) {
    const int v4 = (tid_x >> 3) & 31;
    const int v5 = tid_x & 7;
    const int tXcX = v0 * 128 + v4;
    const int v6 = k_tile * 8 + v5;
    const int v7 = v4 + v5 * 132;
    float* tXsX = sA + v7;
    float tXrX[4];
    tXrX[0] = 0.0f;
    const bool v8 = v6 < mA_2;
    if (tXcX < mA_1 && v8) {
      tXrX[0] = f32_from_bf16(mA_0[(i64)tXcX * mA_4 + (i64)v6]);
    }
    tXrX[1] = 0.0f;
    const int v9 = tXcX + 32;
    if (v9 < mA_1 && v8) {
      tXrX[1] = f32_from_bf16(mA_0[(i64)v9 * mA_4 + (i64)v6]);
    }
    tXrX[2] = 0.0f;
    const int v10 = tXcX + 64;
    if (v10 < mA_1 && v8) {
      tXrX[2] = f32_from_bf16(mA_0[(i64)v10 * mA_4 + (i64)v6]);
    }
    tXrX[3] = 0.0f;
    const int v11 = tXcX + 96;
    if (v11 < mA_1 && v8) {
      tXrX[3] = f32_from_bf16(mA_0[(i64)v11 * mA_4 + (i64)v6]);
    }
    tXsX[0] = tXrX[0];
    tXsX[32] = tXrX[1];
    tXsX[64] = tXrX[2];
    tXsX[96] = tXrX[3];
    const int tXcX_1 = column * 128 + v4;
    float* tXsX_1 = sB + v7;
    float tXrX_1[4];
    tXrX_1[0] = 0.0f;
    const bool v12 = v6 < mB_2;
    if (tXcX_1 < mB_1 && v12) {
      tXrX_1[0] = f32_from_bf16(mB_0[(i64)tXcX_1 * mB_4 + (i64)v6]);
    }
    tXrX_1[1] = 0.0f;
    const int v13 = tXcX_1 + 32;
    if (v13 < mB_1 && v12) {
      tXrX_1[1] = f32_from_bf16(mB_0[(i64)v13 * mB_4 + (i64)v6]);
    }
    tXrX_1[2] = 0.0f;
    const int v14 = tXcX_1 + 64;
    if (v14 < mB_1 && v12) {
      tXrX_1[2] = f32_from_bf16(mB_0[(i64)v14 * mB_4 + (i64)v6]);
    }
    tXrX_1[3] = 0.0f;
    const int v15 = tXcX_1 + 96;
    if (v15 < mB_1 && v12) {
      tXrX_1[3] = f32_from_bf16(mB_0[(i64)v15 * mB_4 + (i64)v6]);
    }
    tXsX_1[0] = tXrX_1[0];
    tXsX_1[32] = tXrX_1[1];
    tXsX_1[64] = tXrX_1[2];
    tXsX_1[96] = tXrX_1[3];
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 8; k++) {
      const int v16 = k * 132;
      float* v17 = tCsA + v16;
      copy16(tCrA, v17);
      copy16(tCrA + 4, v17 + 64);
      float* v18 = tCsB + v16;
      copy16(tCrB, v18);
      copy16(tCrB + 4, v18 + 64);
      float v19[64];
      #pragma unroll
      for (int i = 0; i < 64; i++) {
        v19[i] = fmaf(tCrA[i % 8], tCrB[i / 8], acc[i]);
      }
      #pragma unroll
      for (int i = 0; i < 64; i++) {
        acc[i] = v19[i];
      }
    }
    __syncthreads();
  }
  const int v20 = column * 128;
  const i64 v21 = 64 * mD_4;
  bf16* part = mD_0 + (i64)v0 * 128 * mD_4 + (i64)v20 + (i64)v1 * 4 * mD_4 + (i64)v3;
  const int coords = v0 * 128 + v2;
  const int v22 = v20 + v3;
  const bool v23 = coords < mD_1;
  const bool v24 = v22 + 3 < mD_2;
  if (v23 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[0] * scalars, acc[8] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[16] * scalars, acc[24] * scalars);
    copy8(part, r);
  }
  const bool v25 = coords + 1 < mD_1;
  if (v25 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[1] * scalars, acc[9] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[17] * scalars, acc[25] * scalars);
    copy8(part + mD_4, r);
  }
  const bool v26 = coords + 2 < mD_1;
  if (v26 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[2] * scalars, acc[10] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[18] * scalars, acc[26] * scalars);
    copy8(part + 2 * mD_4, r);
  }
  const bool v27 = coords + 3 < mD_1;
  if (v27 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[3] * scalars, acc[11] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[19] * scalars, acc[27] * scalars);
    copy8(part + 3 * mD_4, r);
  }
  const bool v28 = coords + 64 < mD_1;
  if (v28 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[4] * scalars, acc[12] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[20] * scalars, acc[28] * scalars);
    copy8(part + v21, r);
  }
  const bool v29 = coords + 65 < mD_1;
  if (v29 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[5] * scalars, acc[13] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[21] * scalars, acc[29] * scalars);
    copy8(part + mD_4 + v21, r);
  }
  const bool v30 = coords + 66 < mD_1;
  if (v30 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[6] * scalars, acc[14] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[22] * scalars, acc[30] * scalars);
    copy8(part + 2 * mD_4 + v21, r);
  }
  const bool v31 = coords + 67 < mD_1;
  if (v31 && v24) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[7] * scalars, acc[15] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[23] * scalars, acc[31] * scalars);
    copy8(part + 3 * mD_4 + v21, r);
  }
  const bool v32 = v22 + 67 < mD_2;
  if (v23 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[32] * scalars, acc[40] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[48] * scalars, acc[56] * scalars);
    copy8(part + 64, r);
  }
  if (v25 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[33] * scalars, acc[41] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[49] * scalars, acc[57] * scalars);
    copy8(part + mD_4 + 64, r);
  }
  if (v26 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[34] * scalars, acc[42] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[50] * scalars, acc[58] * scalars);
    copy8(part + 2 * mD_4 + 64, r);
  }
  if (v27 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[35] * scalars, acc[43] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[51] * scalars, acc[59] * scalars);
    copy8(part + 3 * mD_4 + 64, r);
  }
  if (v28 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[36] * scalars, acc[44] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[52] * scalars, acc[60] * scalars);
    copy8(part + v21 + 64, r);
  }
  if (v29 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[37] * scalars, acc[45] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[53] * scalars, acc[61] * scalars);
    copy8(part + mD_4 + v21 + 64, r);
  }
  if (v30 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[38] * scalars, acc[46] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[54] * scalars, acc[62] * scalars);
    copy8(part + 2 * mD_4 + v21 + 64, r);
  }
  if (v31 && v32) {
    alignas(16) bf16 r[4];
    *(u32*)r = pack_bf16(acc[39] * scalars, acc[47] * scalars);
    *(u32*)(r + 2) = pack_bf16(acc[55] * scalars, acc[63] * scalars);
    copy8(part + 3 * mD_4 + v21 + 64, r);
  }
}
