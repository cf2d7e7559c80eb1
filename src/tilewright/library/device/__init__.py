"""The device adapter: a GEMM kernel of chosen collectives, and handles that plan, launch, relaunch.

    gemm = GemmUniversalAdapter(GemmUniversal(mainloop, epilogue))     every choice is yours
    gemm = Gemm()                                                      tiles are picked

Both have CUTLASS's methods: `can_implement`, `get_workspace_size`, `get_grid_shape`, `initialize`,
`update`, `run`, and the call that does it all.
"""

from tilewright.collective.builder import (
    CollectiveBuilder,
    CollectiveEpilogue,
    CollectiveMainloop,
    EpilogueSchedule,
    EpilogueTileAuto,
    FusionOperation,
    KernelSchedule,
    LinCombEltAct,
    LinCombPerColBias,
    LinCombPerColBiasEltAct,
    LinearCombination,
    LinearCombinationGELU,
    LinearCombinationGELUTaylor,
    LinearCombinationRelu,
    LinearCombinationSilu,
    OpClass,
    StageCount,
    StageCountAuto,
    StageCountAutoCarveout,
    StageCountAutoCarveoutEpi,
    TensorDescription,
)
from tilewright.library.device.arguments import GemmArguments, KernelHardwareInfo, TensorRef
from tilewright.library.device.handle import Gemm, GemmUniversalAdapter
from tilewright.library.device.universal import (
    GemmUniversal,
    PersistentScheduler,
    StreamKScheduler,
)
from tilewright.library.status import Status, StatusCode

__all__ = [
    "CollectiveBuilder",
    "CollectiveEpilogue",
    "CollectiveMainloop",
    "EpilogueSchedule",
    "EpilogueTileAuto",
    "FusionOperation",
    "Gemm",
    "GemmArguments",
    "GemmUniversal",
    "GemmUniversalAdapter",
    "KernelHardwareInfo",
    "KernelSchedule",
    "LinCombEltAct",
    "LinCombPerColBias",
    "LinCombPerColBiasEltAct",
    "LinearCombination",
    "LinearCombinationGELU",
    "LinearCombinationGELUTaylor",
    "LinearCombinationRelu",
    "LinearCombinationSilu",
    "OpClass",
    "PersistentScheduler",
    "StageCount",
    "StageCountAuto",
    "StageCountAutoCarveout",
    "StageCountAutoCarveoutEpi",
    "Status",
    "StatusCode",
    "StreamKScheduler",
    "TensorDescription",
    "TensorRef",
]
