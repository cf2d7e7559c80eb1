// saxpy
extern "C" __global__ void saxpy(const float* x, float* y, float alpha, int n) {
  const int i = (int)blockIdx.x * (int)blockDim.x + (int)threadIdx.x;
  if (i < n) {
    y[i] = alpha * x[i] + y[i];
  }
}
