"""Schemas that only the annotations tell."""
import enum
from typing import List, Literal, Optional

from app.registry import register_tool


class Size(str, enum.Enum):
    SMALL = "small"
    LARGE = "large"


@register_tool
def order(dish: str, size: Size, sides: List[str], paid: bool = False, note: Optional[str] = None) -> str:
    """Order a dish.

    It is brought to the table.

    Args:
        dish: The dish, as the menu
            spells it.
        paid (bool): Whether it is paid.
    """
    return dish


@register_tool(description="Rate a dish.")
def rate(dish: str, stars: Literal[1, 2, 3]):
    return stars
