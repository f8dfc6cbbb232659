"""What calls cost: the price given for a role, or the list that comes with pydantic-ai. Loads the list only where it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from misstep.models.settings import Role


def price_known(role: Role) -> bool:
    """Whether calls of this role have a price: given, or listed."""
    if role.price is not None:
        return True
    if role.base_url:
        return False  # a server of one's own has no list price
    from genai_prices import Usage, calc_price

    try:
        calc_price(Usage(input_tokens=1, output_tokens=1), role.name, provider_id=role.provider)
    except LookupError:
        return False
    return True


def estimate(role: Role, input_tokens: int, output_tokens: int) -> float:
    """Dollars of a call of that size; 0 where no price is known."""
    if role.price is not None:
        return role.price.of(input_tokens, 0, output_tokens)
    if role.base_url:
        return 0.0
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    try:
        return float(calc_price(usage, role.name, provider_id=role.provider).total_price)
    except LookupError:
        return 0.0
