import sys; sys.path[:0]=['tests/codegen','.device_codegen','src']
import torch, statistics, ctypes
from hopper_ir import hopper_gemm
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.runtime.toolchain import compile_cubin
import golden_gemm as g
torch.zeros(1,device='cuda')
cfg=g.VARIANTS['coop128x256']
gold=g.Kernel(cfg)
ours_cubin=compile_cubin(emit_cuda(hopper_gemm()),"gemm","sm_90a")
print("ours regs",ours_cubin.registers, ours_cubin.warnings)
class Ours(g.Kernel):
    def bind(self,A,B,D):
        c,d=self.cfg,self.drv
        M,K=A.shape; N=B.shape[0]
        ta=self.tensor_map(A.data_ptr(),c.dtype,K,M,K*2,64,128); tb=self.tensor_map(B.data_ptr(),c.dtype,K,N,K*2,64,256)
        td=self.tensor_map(D.data_ptr(),"bf16",N,M,N*2,64,64)
        scal=(ctypes.c_int(M),ctypes.c_int(N),ctypes.c_int(K))
        ptrs=[int(t.getPtr()) for t in (ta,tb,td)]+[ctypes.addressof(s) for s in scal]
        params=(ctypes.c_void_p*len(ptrs))(*ptrs)
        lc=d.CUlaunchConfig(); lc.gridDimX=min(-(-M//128)*-(-N//256),132); lc.gridDimY=lc.gridDimZ=lc.blockDimY=lc.blockDimZ=1
        lc.blockDimX,lc.sharedMemBytes,lc.hStream,lc.numAttrs=384,hopper_gemm().smem_bytes,d.CUstream(0),0
        addr,fn,launch=ctypes.addressof(params),self.fn,d.cuLaunchKernelEx
        def run(_keep=(ta,tb,td,scal,params,A,B,D)):
            r=launch(lc,fn,addr,0); assert int(r[0])==0,r
            return D
        return run
ours=Ours(cfg,ours_cubin.cubin)
for (M,N,K) in [(2048,2048,2048),(4096,4096,4096),(8192,8192,8192),(8192,8192,512)]:
    A,B=g.make(cfg,M,N,K); ref=g.reference(A,B) if M<8192 else None
    outs={n:g.new_out(cfg,M,N) for n in('gold','ours','ours2')}
    fns={'lib':lambda:torch.matmul(A,B.t()),'gold':gold.bind(A,B,outs['gold']),'ours':ours.bind(A,B,outs['ours']),'ours2':ours.bind(A,B,outs['ours2'])}
    us=g.interleave(fns,40)
    print(M,N,K,{n:(round(us[n],1),round(us['lib']/us[n],3)) for n in fns}, 'same as golden',torch.equal(outs['gold'],outs['ours']), 'err',g.relerr(outs['ours'],ref) if ref is not None else '-', flush=True)
