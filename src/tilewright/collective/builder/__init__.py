"""From types, layouts and a tile to a main loop and an epilogue, with every choice explained."""

from tilewright.collective.builder.builder import CollectiveBuilder
from tilewright.collective.builder.epilogue import CollectiveEpilogue, EpilogueTileAuto
from tilewright.collective.builder.fusions import (
    FusionOperation,
    LinCombEltAct,
    LinCombPerColBias,
    LinCombPerColBiasEltAct,
    LinearCombination,
    LinearCombinationGELU,
    LinearCombinationGELUTaylor,
    LinearCombinationRelu,
    LinearCombinationSilu,
)
from tilewright.collective.builder.mainloop import CollectiveMainloop
from tilewright.collective.builder.stages import (
    StageCount,
    StageCountAuto,
    StageCountAutoCarveout,
    StageCountAutoCarveoutEpi,
)
from tilewright.collective.builder.tags import (
    EpilogueSchedule,
    KernelSchedule,
    OpClass,
    TensorDescription,
)

__all__ = [
    "CollectiveBuilder",
    "CollectiveEpilogue",
    "CollectiveMainloop",
    "EpilogueSchedule",
    "EpilogueTileAuto",
    "FusionOperation",
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
    "StageCount",
    "StageCountAuto",
    "StageCountAutoCarveout",
    "StageCountAutoCarveoutEpi",
    "TensorDescription",
]
