// The search runs in a worker. Browsers refuse workers to pages that were opened from the disk, so
// there a hidden frame takes the part of the worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.onmessage = null;
      window.addEventListener("message", (event) => {
        if (event.source !== this.inside) return;
        const message = new MessageEvent("message", { data: event.data });
        if (this.onmessage) this.onmessage(message);
        this.dispatchEvent(message);
      });
      const page = this.inside.document;
      page.open();
      page.write(`<!doctype html><body><script>
        self.postMessage = (data) => parent.postMessage(data, "*");
        self.importScripts = (...urls) => Promise.all(urls.map((url) => new Promise((done, failed) => {
          const script = document.createElement("script");
          Object.assign(script, { src: url, onload: done, onerror: failed });
          document.body.append(script);
        })));
      <\/script><script src="${url}"><\/script>`);
      page.close();
    }

    postMessage(data) {
      // Frames load later than workers start: messages wait until the script is there.
      if (this.inside.document.readyState === "complete") this.inside.dispatchEvent(this.told(data));
      else this.inside.addEventListener("load", () => this.inside.dispatchEvent(this.told(data)));
    }

    told(data) {
      return new this.inside.MessageEvent("message", { data });
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
