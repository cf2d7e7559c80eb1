// simt_gemm_kernel, from simt_gemm.py
typedef unsigned short u16;
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
DEV u16 bf16_from_f32(float x) {
  u16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
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
  bf16* flat = mD_0 + (i64)v0 * 128 * mD_4 + (i64)v20 + (i64)v1 * 4 * mD_4 + (i64)v3;
  const int coords = v0 * 128 + v2;
  const int v22 = v20 + v3;
  float out[2];
  out[0] = acc[0] * scalars;
  out[1] = acc[1] * scalars;
  const bool v23 = coords + 1 < mD_1;
  const bool v24 = v22 < mD_2;
  if (v23 && v24) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out[0], out[1]);
    flat[0] = r[0];
    flat[mD_4] = r[1];
  } else if (coords < mD_1 && v24) {
    flat[0] = bf16_from_f32(out[0]);
  }
  float out_1[2];
  out_1[0] = acc[2] * scalars;
  out_1[1] = acc[3] * scalars;
  const bool v25 = coords + 3 < mD_1;
  if (v25 && v24) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_1[0], out_1[1]);
    pair[0] = r[0];
    pair[mD_4] = r[1];
  } else if (coords + 2 < mD_1 && v24) {
    flat[2 * mD_4] = bf16_from_f32(out_1[0]);
  }
  float out_2[2];
  out_2[0] = acc[4] * scalars;
  out_2[1] = acc[5] * scalars;
  const bool v26 = coords + 65 < mD_1;
  if (v26 && v24) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_2[0], out_2[1]);
    pair[0] = r[0];
    pair[mD_4] = r[1];
  } else if (coords + 64 < mD_1 && v24) {
    flat[v21] = bf16_from_f32(out_2[0]);
  }
  float out_3[2];
  out_3[0] = acc[6] * scalars;
  out_3[1] = acc[7] * scalars;
  const bool v27 = coords + 67 < mD_1;
  if (v27 && v24) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_3[0], out_3[1]);
    pair[0] = r[0];
    pair[mD_4] = r[1];
  } else if (coords + 66 < mD_1 && v24) {
    flat[2 * mD_4 + v21] = bf16_from_f32(out_3[0]);
  }
  float out_4[2];
  out_4[0] = acc[8] * scalars;
  out_4[1] = acc[9] * scalars;
  const bool v28 = v22 + 1 < mD_2;
  if (v23 && v28) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_4[0], out_4[1]);
    flat[1] = r[0];
    (flat + mD_4)[1] = r[1];
  } else if (coords < mD_1 && v28) {
    flat[1] = bf16_from_f32(out_4[0]);
  }
  float out_5[2];
  out_5[0] = acc[10] * scalars;
  out_5[1] = acc[11] * scalars;
  if (v25 && v28) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_5[0], out_5[1]);
    pair[1] = r[0];
    (pair + mD_4)[1] = r[1];
  } else if (coords + 2 < mD_1 && v28) {
    (flat + 2 * mD_4)[1] = bf16_from_f32(out_5[0]);
  }
  float out_6[2];
  out_6[0] = acc[12] * scalars;
  out_6[1] = acc[13] * scalars;
  if (v26 && v28) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_6[0], out_6[1]);
    pair[1] = r[0];
    (pair + mD_4)[1] = r[1];
  } else if (coords + 64 < mD_1 && v28) {
    (flat + v21)[1] = bf16_from_f32(out_6[0]);
  }
  float out_7[2];
  out_7[0] = acc[14] * scalars;
  out_7[1] = acc[15] * scalars;
  if (v27 && v28) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_7[0], out_7[1]);
    pair[1] = r[0];
    (pair + mD_4)[1] = r[1];
  } else if (coords + 66 < mD_1 && v28) {
    (flat + 2 * mD_4 + v21)[1] = bf16_from_f32(out_7[0]);
  }
  float out_8[2];
  out_8[0] = acc[16] * scalars;
  out_8[1] = acc[17] * scalars;
  const bool v29 = v22 + 2 < mD_2;
  if (v23 && v29) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_8[0], out_8[1]);
    flat[2] = r[0];
    (flat + mD_4)[2] = r[1];
  } else if (coords < mD_1 && v29) {
    flat[2] = bf16_from_f32(out_8[0]);
  }
  float out_9[2];
  out_9[0] = acc[18] * scalars;
  out_9[1] = acc[19] * scalars;
  if (v25 && v29) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_9[0], out_9[1]);
    pair[2] = r[0];
    (pair + mD_4)[2] = r[1];
  } else if (coords + 2 < mD_1 && v29) {
    (flat + 2 * mD_4)[2] = bf16_from_f32(out_9[0]);
  }
  float out_10[2];
  out_10[0] = acc[20] * scalars;
  out_10[1] = acc[21] * scalars;
  if (v26 && v29) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_10[0], out_10[1]);
    pair[2] = r[0];
    (pair + mD_4)[2] = r[1];
  } else if (coords + 64 < mD_1 && v29) {
    (flat + v21)[2] = bf16_from_f32(out_10[0]);
  }
  float out_11[2];
  out_11[0] = acc[22] * scalars;
  out_11[1] = acc[23] * scalars;
  if (v27 && v29) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_11[0], out_11[1]);
    pair[2] = r[0];
    (pair + mD_4)[2] = r[1];
  } else if (coords + 66 < mD_1 && v29) {
    (flat + 2 * mD_4 + v21)[2] = bf16_from_f32(out_11[0]);
  }
  float out_12[2];
  out_12[0] = acc[24] * scalars;
  out_12[1] = acc[25] * scalars;
  const bool v30 = v22 + 3 < mD_2;
  if (v23 && v30) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_12[0], out_12[1]);
    flat[3] = r[0];
    (flat + mD_4)[3] = r[1];
  } else if (coords < mD_1 && v30) {
    flat[3] = bf16_from_f32(out_12[0]);
  }
  float out_13[2];
  out_13[0] = acc[26] * scalars;
  out_13[1] = acc[27] * scalars;
  if (v25 && v30) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_13[0], out_13[1]);
    pair[3] = r[0];
    (pair + mD_4)[3] = r[1];
  } else if (coords + 2 < mD_1 && v30) {
    (flat + 2 * mD_4)[3] = bf16_from_f32(out_13[0]);
  }
  float out_14[2];
  out_14[0] = acc[28] * scalars;
  out_14[1] = acc[29] * scalars;
  if (v26 && v30) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_14[0], out_14[1]);
    pair[3] = r[0];
    (pair + mD_4)[3] = r[1];
  } else if (coords + 64 < mD_1 && v30) {
    (flat + v21)[3] = bf16_from_f32(out_14[0]);
  }
  float out_15[2];
  out_15[0] = acc[30] * scalars;
  out_15[1] = acc[31] * scalars;
  if (v27 && v30) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_15[0], out_15[1]);
    pair[3] = r[0];
    (pair + mD_4)[3] = r[1];
  } else if (coords + 66 < mD_1 && v30) {
    (flat + 2 * mD_4 + v21)[3] = bf16_from_f32(out_15[0]);
  }
  float out_16[2];
  out_16[0] = acc[32] * scalars;
  out_16[1] = acc[33] * scalars;
  const bool v31 = v22 + 64 < mD_2;
  if (v23 && v31) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_16[0], out_16[1]);
    flat[64] = r[0];
    (flat + mD_4)[64] = r[1];
  } else if (coords < mD_1 && v31) {
    flat[64] = bf16_from_f32(out_16[0]);
  }
  float out_17[2];
  out_17[0] = acc[34] * scalars;
  out_17[1] = acc[35] * scalars;
  if (v25 && v31) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_17[0], out_17[1]);
    pair[64] = r[0];
    (pair + mD_4)[64] = r[1];
  } else if (coords + 2 < mD_1 && v31) {
    (flat + 2 * mD_4)[64] = bf16_from_f32(out_17[0]);
  }
  float out_18[2];
  out_18[0] = acc[36] * scalars;
  out_18[1] = acc[37] * scalars;
  if (v26 && v31) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_18[0], out_18[1]);
    pair[64] = r[0];
    (pair + mD_4)[64] = r[1];
  } else if (coords + 64 < mD_1 && v31) {
    (flat + v21)[64] = bf16_from_f32(out_18[0]);
  }
  float out_19[2];
  out_19[0] = acc[38] * scalars;
  out_19[1] = acc[39] * scalars;
  if (v27 && v31) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_19[0], out_19[1]);
    pair[64] = r[0];
    (pair + mD_4)[64] = r[1];
  } else if (coords + 66 < mD_1 && v31) {
    (flat + 2 * mD_4 + v21)[64] = bf16_from_f32(out_19[0]);
  }
  float out_20[2];
  out_20[0] = acc[40] * scalars;
  out_20[1] = acc[41] * scalars;
  const bool v32 = v22 + 65 < mD_2;
  if (v23 && v32) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_20[0], out_20[1]);
    flat[65] = r[0];
    (flat + mD_4)[65] = r[1];
  } else if (coords < mD_1 && v32) {
    flat[65] = bf16_from_f32(out_20[0]);
  }
  float out_21[2];
  out_21[0] = acc[42] * scalars;
  out_21[1] = acc[43] * scalars;
  if (v25 && v32) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_21[0], out_21[1]);
    pair[65] = r[0];
    (pair + mD_4)[65] = r[1];
  } else if (coords + 2 < mD_1 && v32) {
    (flat + 2 * mD_4)[65] = bf16_from_f32(out_21[0]);
  }
  float out_22[2];
  out_22[0] = acc[44] * scalars;
  out_22[1] = acc[45] * scalars;
  if (v26 && v32) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_22[0], out_22[1]);
    pair[65] = r[0];
    (pair + mD_4)[65] = r[1];
  } else if (coords + 64 < mD_1 && v32) {
    (flat + v21)[65] = bf16_from_f32(out_22[0]);
  }
  float out_23[2];
  out_23[0] = acc[46] * scalars;
  out_23[1] = acc[47] * scalars;
  if (v27 && v32) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_23[0], out_23[1]);
    pair[65] = r[0];
    (pair + mD_4)[65] = r[1];
  } else if (coords + 66 < mD_1 && v32) {
    (flat + 2 * mD_4 + v21)[65] = bf16_from_f32(out_23[0]);
  }
  float out_24[2];
  out_24[0] = acc[48] * scalars;
  out_24[1] = acc[49] * scalars;
  const bool v33 = v22 + 66 < mD_2;
  if (v23 && v33) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_24[0], out_24[1]);
    flat[66] = r[0];
    (flat + mD_4)[66] = r[1];
  } else if (coords < mD_1 && v33) {
    flat[66] = bf16_from_f32(out_24[0]);
  }
  float out_25[2];
  out_25[0] = acc[50] * scalars;
  out_25[1] = acc[51] * scalars;
  if (v25 && v33) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_25[0], out_25[1]);
    pair[66] = r[0];
    (pair + mD_4)[66] = r[1];
  } else if (coords + 2 < mD_1 && v33) {
    (flat + 2 * mD_4)[66] = bf16_from_f32(out_25[0]);
  }
  float out_26[2];
  out_26[0] = acc[52] * scalars;
  out_26[1] = acc[53] * scalars;
  if (v26 && v33) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_26[0], out_26[1]);
    pair[66] = r[0];
    (pair + mD_4)[66] = r[1];
  } else if (coords + 64 < mD_1 && v33) {
    (flat + v21)[66] = bf16_from_f32(out_26[0]);
  }
  float out_27[2];
  out_27[0] = acc[54] * scalars;
  out_27[1] = acc[55] * scalars;
  if (v27 && v33) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_27[0], out_27[1]);
    pair[66] = r[0];
    (pair + mD_4)[66] = r[1];
  } else if (coords + 66 < mD_1 && v33) {
    (flat + 2 * mD_4 + v21)[66] = bf16_from_f32(out_27[0]);
  }
  float out_28[2];
  out_28[0] = acc[56] * scalars;
  out_28[1] = acc[57] * scalars;
  const bool v34 = v22 + 67 < mD_2;
  if (v23 && v34) {
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_28[0], out_28[1]);
    flat[67] = r[0];
    (flat + mD_4)[67] = r[1];
  } else if (coords < mD_1 && v34) {
    flat[67] = bf16_from_f32(out_28[0]);
  }
  float out_29[2];
  out_29[0] = acc[58] * scalars;
  out_29[1] = acc[59] * scalars;
  if (v25 && v34) {
    bf16* pair = flat + 2 * mD_4;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_29[0], out_29[1]);
    pair[67] = r[0];
    (pair + mD_4)[67] = r[1];
  } else if (coords + 2 < mD_1 && v34) {
    (flat + 2 * mD_4)[67] = bf16_from_f32(out_29[0]);
  }
  float out_30[2];
  out_30[0] = acc[60] * scalars;
  out_30[1] = acc[61] * scalars;
  if (v26 && v34) {
    bf16* pair = flat + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_30[0], out_30[1]);
    pair[67] = r[0];
    (pair + mD_4)[67] = r[1];
  } else if (coords + 64 < mD_1 && v34) {
    (flat + v21)[67] = bf16_from_f32(out_30[0]);
  }
  float out_31[2];
  out_31[0] = acc[62] * scalars;
  out_31[1] = acc[63] * scalars;
  if (v27 && v34) {
    bf16* pair = flat + 2 * mD_4 + v21;
    alignas(16) bf16 r[2];
    *(u32*)r = pack_bf16(out_31[0], out_31[1]);
    pair[67] = r[0];
    (pair + mD_4)[67] = r[1];
  } else if (coords + 66 < mD_1 && v34) {
    (flat + 2 * mD_4 + v21)[67] = bf16_from_f32(out_31[0]);
  }
}
