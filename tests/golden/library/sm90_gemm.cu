// sm90_gemm_kernel, from sm90_gemm.py
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short bf16;
struct alignas(64) TensorMap { u64 word[16]; };
#define DEV __device__ __forceinline__
DEV void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}
DEV u32 smem_u32(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV void mbarrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(bar), "r"(count) : "memory");
}
DEV void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
DEV void grid_wait() { asm volatile("griddepcontrol.wait;" : : : "memory"); }
template <int count> DEV void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count) : "memory");
}
DEV bool elect_one() {
  u32 chosen;
  asm volatile("{\n" ".reg .pred p;\n" "elect.sync _|p, 0xffffffff;\n" "selp.u32 %0, 1, 0, p;\n" "}" : "=r"(chosen));
  return chosen;
}
template <class T> DEV T floor_div(T a, T b) { const T q = a / b; return q - (q * b != a && (a < 0) != (b < 0)); }
DEV void mbarrier_wait(u32 bar, u32 parity) {
  asm volatile("{\n" ".reg .pred done;\n" "again:\n" "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n" "@done bra through;\n" "bra again;\n" "through:\n" "}" : : "r"(bar), "r"(parity) : "memory");
}
DEV void mbarrier_arrive_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(bar), "r"(bytes) : "memory");
}
DEV void tma_load_2d(u32 dst, const TensorMap* map, u32 bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" : : "r"(dst), "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
}
DEV void grid_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
}
template <int count> DEV void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count) : "memory");
}
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
DEV void wgmma_m64n256k16_f32_bf16_bf16(float* d, u64 a, u64 b, bool accumulate) {
  asm volatile(
    "{\n"
    ".reg .pred p;\n"
    "setp.ne.b32 p, %130, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, "
    "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
    "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
    "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
    "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
    "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "
    "%94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, "
    "%109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
    "%123, %124, %125, %126, %127}, %128, %129, p, 1, 1, 0, 0;\n"
    "}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
      "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
      "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
      "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
      "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
      "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
      "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
      "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
      "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
      "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
      "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
      "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
      "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),
      "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]),
      "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
      "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),
      "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
      "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]),
      "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
    : "l"(a), "l"(b), "r"((int)accumulate));
}
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int pending> DEV void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}
DEV void mbarrier_arrive(u32 bar) {
  asm volatile("{\n" ".reg .b64 state;\n" "mbarrier.arrive.shared.b64 state, [%0];\n" "}" : : "r"(bar) : "memory");
}
template <int pending> DEV void wgmma_wait(float (&d)[128]) {
  asm volatile(
    "wgmma.wait_group.sync.aligned %128;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
      "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
      "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
      "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
      "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
      "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
      "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
      "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
      "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
      "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
      "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
      "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
      "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),
      "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]),
      "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
      "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),
      "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
      "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]),
      "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
    : "n"(pending) : "memory");
}
template <int pending> DEV void tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(pending) : "memory");
}
DEV void barrier_sync(u32 id, u32 threads) {
  asm volatile("barrier.sync.aligned %0, %1;" : : "r"(id), "r"(threads) : "memory");
}
DEV u32 pack_bf16(float lo, float hi) {
  u32 d; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}
DEV void stmatrix_x4(u32 row, const void* src) {
  const u32* r = (const u32*)src;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" : : "r"(row), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
DEV void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}
DEV void tma_store_2d(const TensorMap* map, u32 src, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" : : "l"(map), "r"(src), "r"(x), "r"(y) : "memory");
}
DEV void tma_commit() { asm volatile("cp.async.bulk.commit_group;" : : : "memory"); }
extern "C" __global__ void __launch_bounds__(384, 1)
sm90_gemm_kernel(const __grid_constant__ TensorMap tma_a, int mA_0, int mA_1, int mA_2,
    const __grid_constant__ TensorMap tma_b, int mB_0, int mB_1, int mB_2,
    const __grid_constant__ TensorMap tma_d, int mD_0, int mD_1, int mD_2, float scalars) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int tid_x = threadIdx.x;
  const int warp_idx = __shfl_sync(0xffffffffu, tid_x >> 5, 0);
  const int role = __shfl_sync(0xffffffffu, tid_x >> 7, 0);
  bf16* sA = (bf16*)smem;
  bf16* sB = (bf16*)(smem + 65536);
  bf16* sD = (bf16*)(smem + 196608);
  u64* barriers = (u64*)(smem + 229376);
  const bool v0 = (tid_x & 31) == 0;
  if (tid_x == 0) {
    prefetch_tensor_map(&tma_a);
    prefetch_tensor_map(&tma_b);
    prefetch_tensor_map(&tma_d);
    for (int s = 0; s < 4; s++) {
      u64* v1 = barriers + s;
      mbarrier_init(smem_u32(v1), 1);
      mbarrier_init(smem_u32(v1 + 4), 8);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  grid_wait();
  const int k_tiles = (mA_1 + 63) >> 6;
  const int v2 = (mD_0 + 127) >> 7;
  const int v3 = (mD_1 + 255) >> 8;
  const int bid_x = blockIdx.x;
  const int gdim_x = gridDim.x;
  if (role == 0) {
    setmaxnreg_dec<40>();
    if (warp_idx == 0 && elect_one()) {
      int index = 0;
      int phase = 1;
      #pragma unroll 1
      for (int number = bid_x; number < v2 * v3; number += gdim_x) {
        const int per_group = 16 * v3;
        const int group = floor_div<int>(number, per_group);
        const int inside = number - group * per_group;
        const int first_row = group * 16;
        const int rows = min(v2 - first_row, 16);
        const int column = floor_div<int>(inside, rows);
        const int v4 = first_row + (inside - column * rows);
        #pragma unroll 1
        for (int k = 0; k < k_tiles; k++) {
          u64* v5 = barriers + index;
          mbarrier_wait(smem_u32(v5 + 4), (u32)phase);
          mbarrier_arrive_expect_tx(smem_u32(v5), 49152);
          const int a = k * 64;
          tma_load_2d(smem_u32(sA + index * 8192), &tma_a, smem_u32(v5), a, v4 * 128);
          tma_load_2d(smem_u32(sB + index * 16384), &tma_b, smem_u32(v5), a, column * 256);
          const int following = index + 1;
          const bool wrapped = following == 4;
          index = wrapped ? 0 : following;
          phase ^= (int)wrapped;
        }
      }
      grid_launch_dependents();
    }
  } else {
    setmaxnreg_inc<232>();
    const int part = role - 1;
    const int v6 = tid_x & 127;
    const u32 a = ((smem_u32(sA + part * 4096) & 0x3ffff) >> 4) | 0x10000;
    const u32 b = ((smem_u32(sB) & 0x3ffff) >> 4) | 0x10000;
    float acc_box[128];
    bf16* box = sD + part * 8192;
    const int v7 = 1 + part;
    const int v8 = v6 >> 4;
    const int v9 = (v6 & 15) * 64 + (v8 & 1) * 8;
    bf16* v10 = box + (v8 >> 1) * 1024;
    const int v11 = v9 ^ ((v9 & 448) >> 3);
    alignas(16) bf16 r[32];
    int index = 0;
    int phase = 0;
    #pragma unroll 1
    for (int number = bid_x; number < v2 * v3; number += gdim_x) {
      const int per_group = 16 * v3;
      const int group = floor_div<int>(number, per_group);
      const int inside = number - group * per_group;
      const int first_row = group * 16;
      const int rows = min(v2 - first_row, 16);
      const int column = floor_div<int>(inside, rows);
      int previous = 0;
      #pragma unroll 1
      for (int k = 0; k < k_tiles; k++) {
        mbarrier_wait(smem_u32(barriers + index), (u32)phase);
        wgmma_fence();
        const bool v12 = k > 0;
        const u32 a_1 = a + (u32)(index * 1024);
        const u32 b_1 = b + (u32)(index * 2048);
        wgmma_m64n256k16_f32_bf16_bf16(acc_box, (u64)a_1 | 0x4000004000000000ull, (u64)b_1 | 0x4000004000000000ull, v12);
        wgmma_m64n256k16_f32_bf16_bf16(acc_box, (u64)(a_1 + 2) | 0x4000004000000000ull, (u64)(b_1 + 2) | 0x4000004000000000ull, true);
        wgmma_m64n256k16_f32_bf16_bf16(acc_box, (u64)(a_1 + 4) | 0x4000004000000000ull, (u64)(b_1 + 4) | 0x4000004000000000ull, true);
        wgmma_m64n256k16_f32_bf16_bf16(acc_box, (u64)(a_1 + 6) | 0x4000004000000000ull, (u64)(b_1 + 6) | 0x4000004000000000ull, true);
        wgmma_commit();
        wgmma_wait<1>();
        if (v12) {
          if (v0) {
            mbarrier_arrive(smem_u32(barriers + previous + 4));
          }
        }
        const int following = index + 1;
        const bool wrapped = following == 4;
        previous = index;
        index = wrapped ? 0 : following;
        phase ^= (int)wrapped;
      }
      wgmma_wait<0>(acc_box);
      if (v0) {
        mbarrier_arrive(smem_u32(barriers + previous + 4));
      }
      const int tile_m = (first_row + (inside - column * rows)) * 2 + part;
      const bool v13 = v6 == 0;
      if (v13) {
        tma_wait_read<0>();
      }
      const u32 v14 = v7;
      barrier_sync(v14, 128);
      const int tile = tile_m * 64;
      const int v15 = column * 256;
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i) = pack_bf16(acc_box[i] * scalars, acc_box[i + 1] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 8) = pack_bf16(acc_box[i + 8] * scalars, acc_box[i + 9] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 16) = pack_bf16(acc_box[i + 16] * scalars, acc_box[i + 17] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 24) = pack_bf16(acc_box[i + 24] * scalars, acc_box[i + 25] * scalars);
      }
      bf16* v16 = v10 + v11;
      stmatrix_x4(smem_u32(v16), r);
      bf16* v17 = v10 + (v11 ^ 16);
      stmatrix_x4(smem_u32(v17), r + 8);
      bf16* v18 = v10 + (v11 ^ 32);
      stmatrix_x4(smem_u32(v18), r + 16);
      bf16* v19 = v10 + (v11 ^ 48);
      stmatrix_x4(smem_u32(v19), r + 24);
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i) = pack_bf16(acc_box[i + 32] * scalars, acc_box[i + 33] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 8) = pack_bf16(acc_box[i + 40] * scalars, acc_box[i + 41] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 16) = pack_bf16(acc_box[i + 48] * scalars, acc_box[i + 49] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 24) = pack_bf16(acc_box[i + 56] * scalars, acc_box[i + 57] * scalars);
      }
      stmatrix_x4(smem_u32(v16 + 4096), r);
      stmatrix_x4(smem_u32(v17 + 4096), r + 8);
      stmatrix_x4(smem_u32(v18 + 4096), r + 16);
      stmatrix_x4(smem_u32(v19 + 4096), r + 24);
      fence_proxy_async_shared();
      barrier_sync(v14, 128);
      if (v13) {
        tma_store_2d(&tma_d, smem_u32(box), v15, tile);
        tma_store_2d(&tma_d, smem_u32(box + 4096), v15 + 64, tile);
        tma_commit();
      }
      if (v13) {
        tma_wait_read<0>();
      }
      barrier_sync(v14, 128);
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i) = pack_bf16(acc_box[i + 64] * scalars, acc_box[i + 65] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 8) = pack_bf16(acc_box[i + 72] * scalars, acc_box[i + 73] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 16) = pack_bf16(acc_box[i + 80] * scalars, acc_box[i + 81] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 24) = pack_bf16(acc_box[i + 88] * scalars, acc_box[i + 89] * scalars);
      }
      stmatrix_x4(smem_u32(v16), r);
      stmatrix_x4(smem_u32(v17), r + 8);
      stmatrix_x4(smem_u32(v18), r + 16);
      stmatrix_x4(smem_u32(v19), r + 24);
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i) = pack_bf16(acc_box[i + 96] * scalars, acc_box[i + 97] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 8) = pack_bf16(acc_box[i + 104] * scalars, acc_box[i + 105] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 16) = pack_bf16(acc_box[i + 112] * scalars, acc_box[i + 113] * scalars);
      }
      #pragma unroll
      for (int i = 0; i < 8; i += 2) {
        *(u32*)(r + i + 24) = pack_bf16(acc_box[i + 120] * scalars, acc_box[i + 121] * scalars);
      }
      stmatrix_x4(smem_u32(v16 + 4096), r);
      stmatrix_x4(smem_u32(v17 + 4096), r + 8);
      stmatrix_x4(smem_u32(v18 + 4096), r + 16);
      stmatrix_x4(smem_u32(v19 + 4096), r + 24);
      fence_proxy_async_shared();
      barrier_sync(v14, 128);
      if (v13) {
        tma_store_2d(&tma_d, smem_u32(box), v15 + 128, tile);
        tma_store_2d(&tma_d, smem_u32(box + 4096), v15 + 192, tile);
        tma_commit();
      }
    }
    if (v6 == 0) {
      tma_wait_read<0>();
    }
  }
}
