"""`pipeline`: producers and consumers in step."""

from tilewright.collective.pipeline import (
    OrderedSequenceBarrier,
    PipelineState,
    PipelineTmaAsync,
    PipelineTmaStore,
    make_consumer_state,
    make_producer_state,
)

__all__ = [
    "OrderedSequenceBarrier",
    "PipelineState",
    "PipelineTmaAsync",
    "PipelineTmaStore",
    "make_consumer_state",
    "make_producer_state",
]
