// simt_gemm_kernel, from simt_gemm.py
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned short bf16;
#define DEV __device__ __forceinline__
template <class T> DEV T floor_div(T a, T b) { const T q = a / b; return q - (q * b != a && (a < 0) != (b < 0)); }
DEV float f32_from_bf16(bf16 x) { return __uint_as_float((u32)x << 16); }
DEV void copy16(void* dst, const void* src) { *(uint4*)dst = *(const uint4*)src; }
DEV u16 bf16_from_f32(float x) {
  u16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
extern "C" __global__ void __launch_bounds__(256, 1)
simt_gemm_kernel(const bf16* mA_0, int mA_1, int mA_2, i64 mA_3, const bf16* mB_0, int mB_1, int mB_2,
    i64 mB_3, bf16* mD_0, int mD_1, int mD_2, i64 mD_3, float alpha, float beta) {
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
      tXrX[0] = f32_from_bf16(mA_0[(i64)tXcX * mA_3 + (i64)v6]);
    }
    tXrX[1] = 0.0f;
    const int v9 = tXcX + 32;
    if (v9 < mA_1 && v8) {
      tXrX[1] = f32_from_bf16(mA_0[(i64)v9 * mA_3 + (i64)v6]);
    }
    tXrX[2] = 0.0f;
    const int v10 = tXcX + 64;
    if (v10 < mA_1 && v8) {
      tXrX[2] = f32_from_bf16(mA_0[(i64)v10 * mA_3 + (i64)v6]);
    }
    tXrX[3] = 0.0f;
    const int v11 = tXcX + 96;
    if (v11 < mA_1 && v8) {
      tXrX[3] = f32_from_bf16(mA_0[(i64)v11 * mA_3 + (i64)v6]);
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
      tXrX_1[0] = f32_from_bf16(mB_0[(i64)tXcX_1 * mB_3 + (i64)v6]);
    }
    tXrX_1[1] = 0.0f;
    const int v13 = tXcX_1 + 32;
    if (v13 < mB_1 && v12) {
      tXrX_1[1] = f32_from_bf16(mB_0[(i64)v13 * mB_3 + (i64)v6]);
    }
    tXrX_1[2] = 0.0f;
    const int v14 = tXcX_1 + 64;
    if (v14 < mB_1 && v12) {
      tXrX_1[2] = f32_from_bf16(mB_0[(i64)v14 * mB_3 + (i64)v6]);
    }
    tXrX_1[3] = 0.0f;
    const int v15 = tXcX_1 + 96;
    if (v15 < mB_1 && v12) {
      tXrX_1[3] = f32_from_bf16(mB_0[(i64)v15 * mB_3 + (i64)v6]);
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
  const i64 v21 = 64 * mD_3;
  bf16* v22 = mD_0 + (i64)v0 * 128 * mD_3 + (i64)v20 + (i64)v1 * 4 * mD_3 + (i64)v3;
  const int v23 = v0 * 128 + v2;
  const int v24 = v20 + v3;
  const bool v25 = v23 < mD_1;
  const bool v26 = v24 < mD_2;
  if (v25 && v26) {
    v22[0] = bf16_from_f32(acc[0] * alpha);
  }
  const bool v27 = v23 + 1 < mD_1;
  if (v27 && v26) {
    v22[mD_3] = bf16_from_f32(acc[1] * alpha);
  }
  const bool v28 = v23 + 2 < mD_1;
  if (v28 && v26) {
    v22[2 * mD_3] = bf16_from_f32(acc[2] * alpha);
  }
  const bool v29 = v23 + 3 < mD_1;
  if (v29 && v26) {
    v22[3 * mD_3] = bf16_from_f32(acc[3] * alpha);
  }
  const bool v30 = v23 + 64 < mD_1;
  if (v30 && v26) {
    v22[v21] = bf16_from_f32(acc[4] * alpha);
  }
  const bool v31 = v23 + 65 < mD_1;
  if (v31 && v26) {
    v22[mD_3 + v21] = bf16_from_f32(acc[5] * alpha);
  }
  const bool v32 = v23 + 66 < mD_1;
  if (v32 && v26) {
    v22[2 * mD_3 + v21] = bf16_from_f32(acc[6] * alpha);
  }
  const bool v33 = v23 + 67 < mD_1;
  if (v33 && v26) {
    v22[3 * mD_3 + v21] = bf16_from_f32(acc[7] * alpha);
  }
  const bool v34 = v24 + 1 < mD_2;
  if (v25 && v34) {
    v22[1] = bf16_from_f32(acc[8] * alpha);
  }
  if (v27 && v34) {
    (v22 + mD_3)[1] = bf16_from_f32(acc[9] * alpha);
  }
  if (v28 && v34) {
    (v22 + 2 * mD_3)[1] = bf16_from_f32(acc[10] * alpha);
  }
  if (v29 && v34) {
    (v22 + 3 * mD_3)[1] = bf16_from_f32(acc[11] * alpha);
  }
  if (v30 && v34) {
    (v22 + v21)[1] = bf16_from_f32(acc[12] * alpha);
  }
  if (v31 && v34) {
    (v22 + mD_3 + v21)[1] = bf16_from_f32(acc[13] * alpha);
  }
  if (v32 && v34) {
    (v22 + 2 * mD_3 + v21)[1] = bf16_from_f32(acc[14] * alpha);
  }
  if (v33 && v34) {
    (v22 + 3 * mD_3 + v21)[1] = bf16_from_f32(acc[15] * alpha);
  }
  const bool v35 = v24 + 2 < mD_2;
  if (v25 && v35) {
    v22[2] = bf16_from_f32(acc[16] * alpha);
  }
  if (v27 && v35) {
    (v22 + mD_3)[2] = bf16_from_f32(acc[17] * alpha);
  }
  if (v28 && v35) {
    (v22 + 2 * mD_3)[2] = bf16_from_f32(acc[18] * alpha);
  }
  if (v29 && v35) {
    (v22 + 3 * mD_3)[2] = bf16_from_f32(acc[19] * alpha);
  }
  if (v30 && v35) {
    (v22 + v21)[2] = bf16_from_f32(acc[20] * alpha);
  }
  if (v31 && v35) {
    (v22 + mD_3 + v21)[2] = bf16_from_f32(acc[21] * alpha);
  }
  if (v32 && v35) {
    (v22 + 2 * mD_3 + v21)[2] = bf16_from_f32(acc[22] * alpha);
  }
  if (v33 && v35) {
    (v22 + 3 * mD_3 + v21)[2] = bf16_from_f32(acc[23] * alpha);
  }
  const bool v36 = v24 + 3 < mD_2;
  if (v25 && v36) {
    v22[3] = bf16_from_f32(acc[24] * alpha);
  }
  if (v27 && v36) {
    (v22 + mD_3)[3] = bf16_from_f32(acc[25] * alpha);
  }
  if (v28 && v36) {
    (v22 + 2 * mD_3)[3] = bf16_from_f32(acc[26] * alpha);
  }
  if (v29 && v36) {
    (v22 + 3 * mD_3)[3] = bf16_from_f32(acc[27] * alpha);
  }
  if (v30 && v36) {
    (v22 + v21)[3] = bf16_from_f32(acc[28] * alpha);
  }
  if (v31 && v36) {
    (v22 + mD_3 + v21)[3] = bf16_from_f32(acc[29] * alpha);
  }
  if (v32 && v36) {
    (v22 + 2 * mD_3 + v21)[3] = bf16_from_f32(acc[30] * alpha);
  }
  if (v33 && v36) {
    (v22 + 3 * mD_3 + v21)[3] = bf16_from_f32(acc[31] * alpha);
  }
  const bool v37 = v24 + 64 < mD_2;
  if (v25 && v37) {
    v22[64] = bf16_from_f32(acc[32] * alpha);
  }
  if (v27 && v37) {
    (v22 + mD_3)[64] = bf16_from_f32(acc[33] * alpha);
  }
  if (v28 && v37) {
    (v22 + 2 * mD_3)[64] = bf16_from_f32(acc[34] * alpha);
  }
  if (v29 && v37) {
    (v22 + 3 * mD_3)[64] = bf16_from_f32(acc[35] * alpha);
  }
  if (v30 && v37) {
    (v22 + v21)[64] = bf16_from_f32(acc[36] * alpha);
  }
  if (v31 && v37) {
    (v22 + mD_3 + v21)[64] = bf16_from_f32(acc[37] * alpha);
  }
  if (v32 && v37) {
    (v22 + 2 * mD_3 + v21)[64] = bf16_from_f32(acc[38] * alpha);
  }
  if (v33 && v37) {
    (v22 + 3 * mD_3 + v21)[64] = bf16_from_f32(acc[39] * alpha);
  }
  const bool v38 = v24 + 65 < mD_2;
  if (v25 && v38) {
    v22[65] = bf16_from_f32(acc[40] * alpha);
  }
  if (v27 && v38) {
    (v22 + mD_3)[65] = bf16_from_f32(acc[41] * alpha);
  }
  if (v28 && v38) {
    (v22 + 2 * mD_3)[65] = bf16_from_f32(acc[42] * alpha);
  }
  if (v29 && v38) {
    (v22 + 3 * mD_3)[65] = bf16_from_f32(acc[43] * alpha);
  }
  if (v30 && v38) {
    (v22 + v21)[65] = bf16_from_f32(acc[44] * alpha);
  }
  if (v31 && v38) {
    (v22 + mD_3 + v21)[65] = bf16_from_f32(acc[45] * alpha);
  }
  if (v32 && v38) {
    (v22 + 2 * mD_3 + v21)[65] = bf16_from_f32(acc[46] * alpha);
  }
  if (v33 && v38) {
    (v22 + 3 * mD_3 + v21)[65] = bf16_from_f32(acc[47] * alpha);
  }
  const bool v39 = v24 + 66 < mD_2;
  if (v25 && v39) {
    v22[66] = bf16_from_f32(acc[48] * alpha);
  }
  if (v27 && v39) {
    (v22 + mD_3)[66] = bf16_from_f32(acc[49] * alpha);
  }
  if (v28 && v39) {
    (v22 + 2 * mD_3)[66] = bf16_from_f32(acc[50] * alpha);
  }
  if (v29 && v39) {
    (v22 + 3 * mD_3)[66] = bf16_from_f32(acc[51] * alpha);
  }
  if (v30 && v39) {
    (v22 + v21)[66] = bf16_from_f32(acc[52] * alpha);
  }
  if (v31 && v39) {
    (v22 + mD_3 + v21)[66] = bf16_from_f32(acc[53] * alpha);
  }
  if (v32 && v39) {
    (v22 + 2 * mD_3 + v21)[66] = bf16_from_f32(acc[54] * alpha);
  }
  if (v33 && v39) {
    (v22 + 3 * mD_3 + v21)[66] = bf16_from_f32(acc[55] * alpha);
  }
  const bool v40 = v24 + 67 < mD_2;
  if (v25 && v40) {
    v22[67] = bf16_from_f32(acc[56] * alpha);
  }
  if (v27 && v40) {
    (v22 + mD_3)[67] = bf16_from_f32(acc[57] * alpha);
  }
  if (v28 && v40) {
    (v22 + 2 * mD_3)[67] = bf16_from_f32(acc[58] * alpha);
  }
  if (v29 && v40) {
    (v22 + 3 * mD_3)[67] = bf16_from_f32(acc[59] * alpha);
  }
  if (v30 && v40) {
    (v22 + v21)[67] = bf16_from_f32(acc[60] * alpha);
  }
  if (v31 && v40) {
    (v22 + mD_3 + v21)[67] = bf16_from_f32(acc[61] * alpha);
  }
  if (v32 && v40) {
    (v22 + 2 * mD_3 + v21)[67] = bf16_from_f32(acc[62] * alpha);
  }
  if (v33 && v40) {
    (v22 + 3 * mD_3 + v21)[67] = bf16_from_f32(acc[63] * alpha);
  }
}
