from . import search, menu, orders
