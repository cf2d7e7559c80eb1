"""`pipeline`: producers and consumers in step."""

from tilewright.collective.pipeline import (
    PipelineState,
    PipelineTmaAsync,
    make_consumer_state,
    make_producer_state,
)

__all__ = ["PipelineState", "PipelineTmaAsync", "make_consumer_state", "make_producer_state"]
