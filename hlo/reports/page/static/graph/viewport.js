"use strict";
// Pan and zoom of an SVG drawing: by mouse, wheel, touch and keys.
((hlo) => {
  const SMALLEST = 0.03, SMALLEST_WIDE = 0.4, LARGEST = 3, STEP = 1.25, PAN = 60, EDGE = 24;

  hlo.Viewport = class {
    /** svg: what is dragged; layer: the <g> in it that is moved and scaled. */
    constructor(svg, layer) {
      Object.assign(this, { svg, layer, x: 0, y: 0, scale: 1, width: 1, height: 1 });
      svg.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
      svg.addEventListener("pointerdown", (event) => this.#drag(event));
    }

    get size() {
      const { width, height } = this.svg.getBoundingClientRect();
      return { width, height };
    }

    /** Says how large the drawing is, so that it cannot be lost. */
    setContent(width, height) { Object.assign(this, { width, height }); }

    apply() {
      const { width, height } = this.size;
      const keep = 80;
      this.x = Math.min(width - keep, Math.max(keep - this.width * this.scale, this.x));
      this.y = Math.min(height - keep, Math.max(keep - this.height * this.scale, this.y));
      this.layer.setAttribute("transform",
                              `translate(${this.x} ${this.y}) scale(${this.scale})`);
    }

    /** Shows all of the drawing; no smaller than `least`, and then its upper part: its whole width,
     *  unless that is smaller than can be read, and then the x of `middle` near the middle. */
    fit(least = SMALLEST, middle = this.width / 2) {
      const { width, height } = this.size;
      const whole = Math.min((width - 2 * EDGE) / this.width, (height - 2 * EDGE) / this.height);
      const wide = Math.max(Math.min(least, SMALLEST_WIDE), (width - 2 * EDGE) / this.width);
      this.scale = Math.max(Math.min(least, wide), Math.min(1, whole));
      const isWide = this.width * this.scale > width - 2 * EDGE;
      const x = width / 2 - (isWide ? middle : this.width / 2) * this.scale;
      this.x = isWide ? Math.min(EDGE, Math.max(width - EDGE - this.width * this.scale, x)) : x;
      this.y = Math.max(EDGE, (height - this.height * this.scale) / 2);
      if (this.height * this.scale > height - 2 * EDGE) this.y = EDGE;
      this.apply();
    }

    /** Shows a box of the drawing in the middle. */
    centre({ x, y, width, height }, scale = Math.max(this.scale, 0.8)) {
      const size = this.size;
      this.scale = scale;
      this.x = size.width / 2 - (x + width / 2) * scale;
      this.y = size.height / 2 - (y + height / 2) * scale;
      this.apply();
    }

    /** Moves just as far as it takes to see a box. */
    show({ x, y, width, height }) {
      const size = this.size;
      const left = this.x + x * this.scale, top = this.y + y * this.scale;
      const right = left + width * this.scale, bottom = top + height * this.scale;
      if (left < EDGE || right - left > size.width) this.x += EDGE - left;
      else if (right > size.width - EDGE) this.x -= right - size.width + EDGE;
      if (top < EDGE || bottom - top > size.height) this.y += EDGE - top;
      else if (bottom > size.height - EDGE) this.y -= bottom - size.height + EDGE;
      this.apply();
    }

    /** Scales about a point of the window, by default the middle. */
    zoom(factor, at = null) {
      const size = this.size;
      const point = at ?? { x: size.width / 2, y: size.height / 2 };
      const scale = Math.min(LARGEST, Math.max(SMALLEST, this.scale * factor));
      this.x = point.x - (point.x - this.x) * (scale / this.scale);
      this.y = point.y - (point.y - this.y) * (scale / this.scale);
      this.scale = scale;
      this.apply();
    }

    zoomIn() { this.zoom(STEP); }
    zoomOut() { this.zoom(1 / STEP); }

    pan(dx, dy) {
      this.x += dx * PAN;
      this.y += dy * PAN;
      this.apply();
    }

    #wheel(event) {
      event.preventDefault();
      const box = this.svg.getBoundingClientRect();
      // A touchpad pans with two fingers, and zooms with the control key.
      if (event.shiftKey) return this.pan(-Math.sign(event.deltaY || event.deltaX), 0);
      const speed = event.deltaMode === 1 ? 0.05 : 0.0016;
      this.zoom(Math.exp(-event.deltaY * speed),
                { x: event.clientX - box.left, y: event.clientY - box.top });
    }

    #drag(event) {
      if (event.button !== 0) return;
      let { clientX: x, clientY: y } = event;
      let hasMoved = false;
      const move = (now) => {
        if (!hasMoved && Math.hypot(now.clientX - x, now.clientY - y) < 4) return;
        hasMoved = true;
        this.svg.classList.add("drags");
        this.x += now.clientX - x;
        this.y += now.clientY - y;
        ({ clientX: x, clientY: y } = now);
        this.apply();
      };
      const end = () => {
        window.removeEventListener("pointermove", move);
        window.removeEventListener("pointerup", end);
        // The click that ends a drag selects nothing.
        setTimeout(() => this.svg.classList.remove("drags"));
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", end);
    }
  };
})(globalThis.hlo ??= {});
