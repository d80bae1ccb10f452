from ..frontend.sparse import spmm as spmm
from .lower_buffer import lower_sparse_buffer as lower_sparse_buffer
from .lower_iter import lower_sparse_iter as lower_sparse_iter
