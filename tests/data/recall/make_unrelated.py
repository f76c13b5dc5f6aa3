"""Makes 100 questions from fields that no everyday memory is about, four from each of 25 fields.

    python tests/data/recall/make_unrelated.py 5 > tests/data/recall/unrelated-5.json

A memory that answers none of them must not look sure of itself. The seed decides which pattern asks about which subject.
Standard library only.
"""

from __future__ import annotations

import json
import random
import sys

FIELDS = {
    "mineralogy": ("feldspar", "olivine crystals", "kaolinite", "the cleavage of mica"),
    "astrophysics": ("the Chandrasekhar limit", "neutron star mergers", "Wolf-Rayet stars", "the cosmic microwave background"),
    "roman law": ("usucapion", "the Twelve Tables", "praetorian edicts", "manumission under Justinian"),
    "organic chemistry": ("the Diels-Alder reaction", "Grignard reagents", "keto-enol tautomerism", "benzene nitration"),
    "entomology": ("the molting of cicadas", "leafcutter ant fungus", "dragonfly nymphs", "pheromones of bark beetles"),
    "medieval history": ("the Hanseatic League", "Carolingian minuscule", "the Investiture Controversy", "the battle of Bouvines"),
    "linguistics": ("Grimm's law", "ergative alignment", "vowel harmony in Finnish", "Proto-Indo-European laryngeals"),
    "topology": ("the Poincaré conjecture", "simplicial homology", "the Klein bottle", "compact Hausdorff spaces"),
    "oceanography": ("thermohaline circulation", "abyssal plains", "the Mariana Trench", "upwelling off Peru"),
    "veterinary medicine": ("bovine mastitis", "equine laminitis", "avian coccidiosis", "foot-and-mouth disease"),
    "metallurgy": ("martensite formation", "the Bessemer process", "annealing of brass", "eutectic solder alloys"),
    "heraldry": ("tinctures and metals", "a lion rampant", "quartering of arms", "the bend sinister"),
    "botany": ("mycorrhizal fungi", "the xylem of conifers", "stomatal conductance", "double fertilization of angiosperms"),
    "meteorology": ("orographic lift", "cumulonimbus anvils", "the Coriolis effect", "katabatic winds"),
    "philosophy": ("Kant's categorical imperative", "Leibniz's monads", "Hume on induction", "the ship of Theseus"),
    "egyptology": ("the Rosetta Stone", "canopic jars", "the Narmer Palette", "hieratic script"),
    "quantum physics": ("Bell's inequality", "the Lamb shift", "fermionic statistics", "the Stern-Gerlach experiment"),
    "seismology": ("the Mohorovičić discontinuity", "shear waves", "subduction zones", "the moment magnitude scale"),
    "byzantine art": ("mosaics of Ravenna", "the iconostasis", "enamel reliquaries", "the dome of Hagia Sophia"),
    "virology": ("bacteriophage lambda", "reverse transcriptase", "viral capsid symmetry", "prion diseases"),
    "musicology": ("Gregorian neumes", "the isorhythmic motet", "figured bass", "dodecaphonic rows"),
    "numismatics": ("Athenian tetradrachms", "denarii of Augustus", "die axis alignment", "silver content of thalers"),
    "palaeontology": ("trilobite eyes", "the Burgess Shale", "ammonite sutures", "theropod feathers"),
    "glaciology": ("drumlins", "firn densification", "calving of tidewater glaciers", "varves in lake sediment"),
    "monetary policy": ("the gold standard", "Bretton Woods", "quantitative easing in Japan", "hyperinflation in Weimar Germany"),
}  # fmt: skip

PATTERNS = ("What explains {}?", "How were {} first described?", "Who studied {}?", "Why does {} matter in {field}?",
            "When was {} discovered?", "Where can one see {}?", "Which textbook treats {} best?", "What is known about {}?")  # fmt: skip


def make(seed: int) -> list[dict[str, str]]:
    """Make the questions of one seed, each with its field."""
    rng = random.Random(seed)
    made = [
        {"field": field, "query": rng.choice(PATTERNS).format(subject, field=field)}
        for field, subjects in FIELDS.items()
        for subject in subjects
    ]
    rng.shuffle(made)
    return made


if __name__ == "__main__":
    json.dump(make(int(sys.argv[1])), sys.stdout, ensure_ascii=False, indent=0)
    print()
