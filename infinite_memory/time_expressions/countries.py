"""The country of a time zone, where the date of a holiday depends on it.

Only time zones of the countries in `LOCAL_HOLIDAYS` are listed (tz database, zone.tab and backward); for every other one the country is
unknown, and a holiday is the most common one in its language.
"""

from __future__ import annotations

_ZONES = {
    "CA": "America/Toronto America/Montreal America/Vancouver America/Edmonton America/Winnipeg America/Halifax America/St_Johns"
    " America/Regina America/Moncton America/Glace_Bay America/Goose_Bay America/Blanc-Sablon America/Atikokan"
    " America/Iqaluit America/Resolute America/Rankin_Inlet America/Swift_Current America/Cambridge_Bay America/Inuvik"
    " America/Creston America/Dawson_Creek America/Fort_Nelson America/Whitehorse America/Dawson America/Yellowknife"
    " America/Thunder_Bay America/Nipigon America/Rainy_River America/Pangnirtung",
    "US": "America/New_York America/Detroit America/Chicago America/Menominee America/Denver America/Boise America/Phoenix"
    " America/Los_Angeles America/Anchorage America/Juneau America/Sitka America/Metlakatla America/Yakutat America/Nome"
    " America/Adak America/Louisville America/Indianapolis America/Puerto_Rico Pacific/Honolulu",
    "GB": "Europe/London Europe/Belfast Europe/Jersey Europe/Guernsey Europe/Isle_of_Man GB",
    "IE": "Europe/Dublin Eire",
    "BE": "Europe/Brussels",
    "CH": "Europe/Zurich",
    "ES": "Europe/Madrid Africa/Ceuta Atlantic/Canary",
    "MX": "America/Mexico_City America/Cancun America/Merida America/Monterrey America/Matamoros America/Chihuahua"
    " America/Ciudad_Juarez America/Ojinaga America/Mazatlan America/Bahia_Banderas America/Hermosillo America/Tijuana"
    " America/Ensenada America/Santa_Isabel",
    "AR": "America/Buenos_Aires America/Cordoba America/Rosario America/Mendoza America/Catamarca America/Jujuy",
    "CO": "America/Bogota",
    "CL": "America/Santiago America/Punta_Arenas",
    "PE": "America/Lima",
    "PT": "Europe/Lisbon Atlantic/Azores Atlantic/Madeira Portugal",
    "NZ": "Pacific/Auckland Pacific/Chatham NZ",
}
_FAMILIES = {
    "Canada/": "CA", "US/": "US", "America/Kentucky/": "US", "America/Indiana/": "US", "America/North_Dakota/": "US",
    "Australia/": "AU", "America/Argentina/": "AR", "Mexico/": "MX", "Chile/": "CL",
}  # fmt: skip
_COUNTRY_OF = {zone: country for country, zones in _ZONES.items() for zone in zones.split()}

LOCAL_HOLIDAYS = {
    ("labour_day", "CA"): "labor_day",
    ("labour_day", "US"): "labor_day",
    ("labor_day", "NZ"): "labour_day_new_zealand",
    ("thanksgiving", "CA"): "thanksgiving_canada",
    ("mothers_day", "GB"): "mothering_sunday",
    ("mothers_day", "IE"): "mothering_sunday",
    ("mothers_day_hispanic", "ES"): "mothers_day_spain",
    ("mothers_day_hispanic", "MX"): "mothers_day_mexico",
    ("mothers_day_hispanic", "AR"): "mothers_day_argentina",
    **{("mothers_day_hispanic", country): "mothers_day" for country in ("CO", "CL", "PE", "US")},
    ("fathers_day_hispanic", "ES"): "saint_joseph",
    **{("fathers_day_hispanic", country): "fathers_day" for country in ("MX", "AR", "CO", "CL", "PE", "US")},
    ("lovers_day_brazil", "PT"): "valentine",
    ("childrens_day_brazil", "PT"): "childrens_day",
    ("mothers_day_france", "CA"): "mothers_day",
    ("mothers_day_france", "BE"): "mothers_day",
    ("mothers_day_france", "CH"): "mothers_day",
    ("fathers_day", "AU"): "fathers_day_september",
    ("fathers_day", "NZ"): "fathers_day_september",
}
"""The key in `holidays` of a holiday's date in a country."""


def get_country(zone: str | None) -> str | None:
    """Return the country of a time zone; None if it is unknown."""
    if zone is None:
        return None
    family = next((country for prefix, country in _FAMILIES.items() if zone.startswith(prefix)), None)
    return family or _COUNTRY_OF.get(zone)


def get_local_holiday(key: str, country: str | None) -> str:
    """Return the key of the holiday *key* in a country."""
    return LOCAL_HOLIDAYS.get((key, country), key) if country is not None else key
